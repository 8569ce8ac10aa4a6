"""From where on a resource counts as saturated, and why there.

The figures were set on injected loads and are checked on others (docs/results/alibi.md). They are shares of time
unless their name says otherwise.
"""

from __future__ import annotations

# Counters are compared over half a second at least: /proc/stat counts in ticks of 10 ms, so that a core's share is
# then known to 2 %, and a thread's share of a CPU is not the luck of one time slice.
BIN_NS = 500_000_000

# A core, or a thread, that is busy for 95 % has no use left: the rest is interrupts' and the tick's error.
BUSY = 0.95

# Of several cores only some are full: that is the CPU's limit only if tasks wait meanwhile (else it is one thread's).
# A quarter of the time: two equal tasks on one core make one wait all the time; wake-ups on an ordinary host, 0–15 %.
CPU_WAIT = 0.25

# A full core that spends three quarters of its time in interrupts serves a device, not programs.
SOFTIRQ = 0.75

# Threads that take turns (a GIL, one big lock) use one CPU together, in half of the bins with idle cores or more: in
# those alone nothing else holds them back. Never more than one, but a little less: whoever has the turn may be
# preempted, or the next one wake late. Measured with 2 to 16 Python threads, strangers beside them or not: 0.92 to 1.02.
TURNS_LEAST, TURNS_MOST = 0.93, 1.03
TURNS_SHARE = 0.5
# One bin at exactly one CPU is chance.
TURNS_BINS = 2

# The hypervisor took a tenth of a core's time: ten times what flags a trial, and more than a neighbour's daemon takes.
STEAL = 0.10

# A cgroup was kept from its CPUs for a tenth of the time, or in a tenth of its periods where the time is less.
THROTTLED = 0.10

# Tasks stalled for a tenth of the time on reclaim, refaults or swap (PSI memory, which counts nothing else).
MEMORY_STALL = 0.10
# Of a cgroup that is at its limit and reads most of what is read, a third of that is enough: whatever it reads in once
# more is memory's, and the kernel counts only a part of it.
MEMORY_PAGING = 0.03
# A cgroup within 3 % of its limit is at it: the kernel charges and reclaims in batches of pages.
AT_LIMIT = 0.97

# A disk's queue: requests wait when on average two or more are in flight and each takes twice as long as one takes
# alone on this device. Busy time is no measure: a device that serves many at once is busy with one.
DISK_DEPTH = 2.0
DISK_SLOWER = 2.0
# Where the recording holds no lightly loaded time to compare with, the queue alone decides. 8: few devices serve so
# many at once (a disk 1, a virtual disk 2 to 8); a fast one may, and then the evidence says how it was judged.
DISK_DEEP = 8.0
# Lightly loaded: at most one in flight. At least 20 requests, for their time to mean something, in bins of 3 or more,
# of which the quickest quarter counts: the others hold flushes and somebody else's burst.
DISK_LIGHT = 1.0
DISK_LIGHT_REQUESTS = 20
DISK_LIGHT_IN_BIN = 3
DISK_LIGHT_QUANTILE = 0.25
# Requests more than four times as large as those seen alone cannot be cleared by comparison: how long one of them takes
# alone is not known, only that it is at most in proportion.
DISK_LARGER = 4.0

# A queue that grows while throughput does not (at most a tenth more; or a fifth less, which a limit that is kept in steps
# of 0.1 s makes of two bins): the server is at its ceiling, whatever its times are elsewhere. Twice as deep as where it
# had reached that throughput, as for DISK_SLOWER; at least three bins must have shown it. Flat only says so while there
# is always work: a server with pauses does what is asked of it. 90 %, for busy time is counted in ticks
# (block/blk-core.c, update_io_ticks).
FLAT, FALLEN = 0.10, 0.20
DEEPER = 2.0
KNEE_BINS = 3
KEPT_BUSY = 0.90
# Packets that a network queue must hold for that: below, its length is the sender's bursts.
QUEUE_DEEP = 10.0

# A network queue that holds packets at half of the samples or more, and that the link refuses to empty (overlimits,
# drops or requeues grow), is full; a queue that a burst filled is empty at most samples.
BACKLOG = 0.5
# At 95 % of a known link speed the link is full, queue or not: headers and gaps take the rest.
LINK = 0.95

# A party waited for disk requests for a quarter of the time, as for CPUs.
IO_WAIT = 0.25
# A cgroup is a party's own when 95 % of the CPU time and of the bytes there were: its pressure is then the party's.
OWN = 0.95

# What was saturated for less than a fifth of a phase is told, but does not decide its verdict.
MAIN_SHARE = 0.20

# A phase of a segmented recording lasts at least this many bins: shorter ones are jitter of the counters.
PHASE_BINS = 4
