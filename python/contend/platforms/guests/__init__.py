"""Virtual machines that a party runs in: what they boot, how they are started, and how they are talked to."""
