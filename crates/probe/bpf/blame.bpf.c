/* Who ran while a task waited for its CPU, and whose requests were ahead of a disk request.
 *
 * CPU: the kernel itself stamps when a task becomes runnable (sched_info.last_queued, on its run queue's clock:
 * kernel/sched/stats.h), so a wait is known at the switch that ends it, and wake-ups need no hook. At sched_switch the
 * kernel has not yet cleared the stamp nor added the wait to run_delay; the clock read here is the one it will use.
 * Of every CPU a ring holds the last slices: whose, and until when; they follow each other without a gap. A wait is
 * charged to the slices that it overlaps.
 *
 * Disk: a request's time with n others ahead of it is, if the device shares itself evenly, n/(n+1) waiting and
 * 1/(n+1) its own service; the waiting is shared among the groups ahead by their numbers of requests.
 */
#include "blame.h"
#include "blame_disk.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define SLICES 512 /* of a CPU: more would reach further back, and take longer under the run queue's lock */
#define TASKS 65536
#define TASK_ON_RQ_MIGRATING 2 /* kernel/sched/sched.h */

/* The slices of a CPU, oldest first from newest + 1 on; each begins where the one before it ends. */
struct slice {
    __u64 end_ns;
    __u64 group;
};

struct cpu {
    __u64 newest;
    __u64 running; /* whose task got it in the last switch told of */
    struct slice slices[SLICES];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* as many as there may be CPUs: set before loading */
    __type(key, __u32);
    __type(value, struct cpu);
} cpus SEC(".maps");

/* Of the task that ran last with these low bits of its number: what of its waits has been charged. */
struct seen {
    __u32 pid;
    __u32 throttled;
    __u64 run_delay;
};

struct seen seen[TASKS];

static __always_inline void push(struct cpu *cpu, __u64 now, __u64 group) {
    __u64 newest = cpu->newest;

    if (!newest) { /* nothing is known from before */
        cpu->slices[0].end_ns = now;
        cpu->slices[0].group = EARLIER;
        cpu->newest = SLICES;
        return;
    }
    if (group != IDLE)
        add_used(0, group, now - cpu->slices[newest % SLICES].end_ns);
    if (cpu->slices[newest % SLICES].group != group) {
        newest++;
        cpu->slices[newest % SLICES].group = group;
        cpu->newest = newest;
    }
    cpu->slices[newest % SLICES].end_ns = now;
}

/* A wait, of which [from, to) is not yet charged. It counts once, for whoever ran last in it. */
struct wait {
    struct cpu *cpu;
    __u64 victim;
    __u64 from;
    __u64 to;
    __u64 waits;
};

static long back(__u64 i, struct wait *wait) {
    __u64 at = wait->cpu->newest - i;
    __u64 group = wait->cpu->slices[at % SLICES].group;
    __u64 start = wait->cpu->slices[(at - 1) % SLICES].end_ns;

    if (group == EARLIER)
        return 1;
    if (start < wait->from)
        start = wait->from;
    if (start < wait->to) {
        charge(&cpu_pairs, 0, wait->victim, group, wait->to - start, wait->waits);
        wait->waits = 0;
        wait->to = start;
    }
    return wait->to <= wait->from;
}

static __always_inline void attribute(struct cpu *cpu, __u64 victim, __u64 from, __u64 to) {
    struct wait wait = {.cpu = cpu, .victim = victim, .from = from, .to = to, .waits = 1};

    /* The helper is there since Linux 5.17; unrolled by the verifier instead, loading took a second of CPU. */
    if (!back(0, &wait))
        bpf_loop(SLICES - 1, back, &wait, 0);
    if (wait.to > from)
        charge(&cpu_pairs, 0, victim, EARLIER, wait.to - from, wait.waits);
}

static __always_inline bool throttled(const struct task_struct *task) {
    const struct task_struct___throttled *new = (const void *)task;

    if (bpf_core_field_exists(new->throttled))
        return new->throttled;
    if (bpf_core_field_exists(struct cfs_rq, throttle_count))
        return task->se.cfs_rq->throttle_count > 0;
    return false;
}

/* The run queue of a task's CPU. Every task has one by way of its cfs_rq, an idle one too; the per-CPU variable itself
 * has an address for us only in kernels with CONFIG_KALLSYMS_ALL. */
static __always_inline const struct rq *queue_of(const struct task_struct *task) {
    return task->se.cfs_rq->rq;
}

static __always_inline __u32 cpu_of(const struct task_struct *task) {
    const struct task_struct___cpu *old = (const void *)task;

    if (bpf_core_field_exists(old->cpu))
        return old->cpu;
    return task->thread_info.cpu;
}

/* A task leaves its CPU, and has waited more than what was charged when it last got one: of that switch no tracer was
 * told, as Linux 6.18 was seen to keep a few in 100,000 to itself, mostly from idle. When it was, the kernel's stamp
 * tells, and until then ran who came before. */
static __always_inline void arrived_untold(struct cpu *cpu, const struct task_struct *task) {
    struct seen *of = &seen[(__u32)task->pid % TASKS];
    __u64 total = task->sched_info.run_delay, at = task->sched_info.last_arrival, wait;

    if (of->pid != (__u32)task->pid || total <= of->run_delay)
        return;
    wait = total - of->run_delay;
    if (cpu->newest && at > cpu->slices[cpu->newest % SLICES].end_ns)
        push(cpu, at, cpu->running);
    if (of->throttled)
        charge(&cpu_pairs, 0, group_of(task), OWN_QUOTA, wait, 1);
    else
        attribute(cpu, group_of(task), at - wait, at);
    of->run_delay = total;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next) {
    __u32 number = bpf_get_smp_processor_id();
    struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
    __u64 now = queue_of(prev)->clock, victim = group_of(next);

    if (!cpu)
        return 0;
    if (prev->pid)
        arrived_untold(cpu, prev);
    push(cpu, now, group_of(prev));
    cpu->running = victim;
    if (prev->pid) {
        struct seen *of = &seen[(__u32)prev->pid % TASKS];
        bool dead = prev->__state & TASK_DEAD;

        if (of->pid == (__u32)prev->pid) {
            of->throttled = throttled(prev);
            if (dead) /* who has its number next is another, of whose waits nothing has been charged */
                of->pid = 0;
        }
        if (dead && prev->pid == prev->tgid && is_process(group_of(prev))) {
            struct name *name = blank();
            __u64 id = group_of(prev);

            if (name) {
                __builtin_memset(name->text, 0, 16);
                bpf_core_read_str(name->text, 16, &prev->comm);
                bpf_map_update_elem(&names, &id, name, BPF_ANY);
            }
        }
    }
    if (next->pid) {
        struct seen *of = &seen[(__u32)next->pid % TASKS];
        __u64 queued = next->sched_info.last_queued, before = next->sched_info.run_delay;
        __u64 wait = queued && now > queued ? now - queued : 0;
        bool known = of->pid == (__u32)next->pid && before >= of->run_delay;

        if (wait || !known || before != of->run_delay) {
            /* Waits that ended untold: in a move from one CPU's queue to another's, or before its first run. */
            if (known ? before > of->run_delay : before && !next->sched_info.pcount)
                charge(&cpu_pairs, 0, victim, BEFORE_MIGRATION, before - (known ? of->run_delay : 0), 1);
            if (wait && known && of->throttled)
                charge(&cpu_pairs, 0, victim, OWN_QUOTA, wait, 1);
            else if (wait)
                attribute(cpu, victim, queued, now);
            of->pid = next->pid;
            of->run_delay = before + wait;
        }
        of->throttled = 0;
    }
    return 0;
}

/* A waiting task changes its CPU. It has been taken off the old run queue, whose lock is held, and what it waited there
 * is in run_delay already (move_queued_task and detach_task in kernel/sched). One that sleeps is not on_rq. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(migrated, struct task_struct *task, int to) {
    struct seen *of = &seen[(__u32)task->pid % TASKS];
    bool known = of->pid == (__u32)task->pid, fresh = !known && !task->sched_info.pcount;
    __u64 total = task->sched_info.run_delay, before = known ? of->run_delay : 0;
    __u32 number = cpu_of(task);
    const struct rq *rq = queue_of(task);
    struct cpu *cpu;
    __u64 now;

    /* A task that was never seen, and has run before, waited since an unknown time. */
    if (task->on_rq != TASK_ON_RQ_MIGRATING || !(known || fresh) || total <= before)
        return 0;
    cpu = bpf_map_lookup_elem(&cpus, &number);
    if (!cpu)
        return 0;
    now = rq->clock;
    push(cpu, now, group_of(rq->curr)); /* whose slice goes on */
    if (known && of->throttled)
        charge(&cpu_pairs, 0, group_of(task), OWN_QUOTA, total - before, 1);
    else
        attribute(cpu, group_of(task), now - (total - before), now);
    of->pid = task->pid;
    of->run_delay = total;
    return 0;
}

/* Once, when the programs above are there: of every task that sleeps, what it has waited so far is not of our time. One
 * that wakes meanwhile, and gets its CPU in the same nanoseconds, is charged one wait twice. */
SEC("iter/task")
int asleep(struct bpf_iter__task *ctx) {
    const struct task_struct *task = ctx->task;
    struct seen *of;

    if (!task || !task->pid || task->on_rq)
        return 0;
    of = &seen[(__u32)task->pid % TASKS];
    if (of->pid) /* it woke, or shares the place with one that did */
        return 0;
    of->run_delay = task->sched_info.run_delay;
    of->pid = task->pid;
    return 0;
}

/* A cgroup's name goes with it. Those of v1 hierarchies have numbers of their own. */
SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(removed, struct cgroup *cgroup, const char *path) {
    struct name *name = blank();
    __u64 id = cgroup_id(cgroup);

    if (!by_cgroup || cgroup->root->hierarchy_id || !name)
        return 0;
    bpf_core_read_str(name->text, sizeof(name->text), path);
    bpf_map_update_elem(&names, &id, name, BPF_ANY);
    return 0;
}

