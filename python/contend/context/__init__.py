"""The cost of one component (an RPC, or a download) as a part of a whole cloud's boot storm."""
