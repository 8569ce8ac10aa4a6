"""Instances of a cloud as the ends of pairs: which there are to be, how they are made, and what is measured in them."""
