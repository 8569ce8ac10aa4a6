"""Two or more commands, or settings of one workload, interleaved in one run; the first is the baseline."""
