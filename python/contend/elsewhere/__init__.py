"""Services of the user's that do a workload's work elsewhere: a Hadoop cluster, a Jenkins; and what a run has there."""
