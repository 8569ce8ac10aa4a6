"""Load driver, broker, simulated service: what one RPC costs each of them.

`ends` are programs of their own, a process each; `trial` starts them, loads them and reads what it cost.
"""
