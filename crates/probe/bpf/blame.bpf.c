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
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Groups that are none. Ids of cgroups and processes never come near. */
#define IDLE 0ULL
#define EARLIER (~0ULL)           /* ran before the ring begins */
#define BEFORE_MIGRATION (~1ULL)  /* waited on a CPU that is not known any more */
#define OWN_QUOTA (~2ULL)         /* held off by the bandwidth limit of its own cgroup */
#define OTHERS (~3ULL)            /* no room to keep them apart */
#define WRITEBACK (~4ULL)         /* the kernel, writing what others dirtied */

#define SLICES 256 /* of a CPU's ring */
#define TASKS 65536
#define PAIRS 16384
#define NAMES 4096
#define NAME_LENGTH 184
#define REQUESTS 16384
#define DEVICES 256
#define SHARERS 12 /* groups with requests in one device at a time that are told apart */

#define PF_WQ_WORKER 0x20 /* include/linux/sched.h */
#define TASK_DEAD 0x80
#define TASK_ON_RQ_MIGRATING 2 /* kernel/sched/sched.h */

/* What this file reads of the kernel; libbpf takes what follows three underscores for a comment of ours. */
struct sched_info {
    unsigned long pcount;
    unsigned long long run_delay;
    unsigned long long last_queued;
} __reloc;

struct kernfs_node {
    __u64 id;
} __reloc;

struct cgroup_root {
    int hierarchy_id;
} __reloc;

struct cgroup {
    struct kernfs_node *kn;
    struct cgroup_root *root;
} __reloc;

struct css_set {
    struct cgroup *dfl_cgrp;
} __reloc;

struct rq;

struct cfs_rq {
    struct rq *rq;
    int throttle_count;
} __reloc;

struct sched_entity___blame {
    struct cfs_rq *cfs_rq;
} __reloc;

struct thread_info {
    __u32 cpu;
} __reloc;

struct task_struct___blame {
    struct thread_info thread_info;
    unsigned int __state;
    unsigned int flags;
    int on_rq;
    int pid;
    int tgid;
    __u64 start_boottime;
    struct task_struct___blame *group_leader;
    struct sched_entity___blame se;
    struct sched_info sched_info;
    struct css_set *cgroups;
    char comm[16];
} __reloc;

/* Since Linux 6.18 a task is throttled, before it was the queue it stands in. */
struct task_struct___throttled {
    bool throttled;
} __reloc;

/* On x86 before Linux 5.16. */
struct task_struct___cpu {
    unsigned int cpu;
} __reloc;

struct rq {
    __u64 clock;
    struct task_struct___blame *curr;
} __reloc;

struct cgroup_subsys_state {
    struct cgroup *cgroup;
} __reloc;

struct blkcg {
    struct cgroup_subsys_state css;
} __reloc;

struct blkcg_gq {
    struct blkcg *blkcg;
} __reloc;

struct bio {
    struct blkcg_gq *bi_blkg;
} __reloc;

struct request {
    void *q;
    struct bio *bio;
} __reloc;

const volatile bool by_cgroup = false;

struct pair {
    __u64 victim;
    __u64 culprit;
};

struct charge {
    __u64 wait_ns;
    __u64 waits;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, PAIRS);
    __type(key, struct pair);
    __type(value, struct charge);
} cpu_pairs SEC(".maps"), disk_pairs SEC(".maps");

/* Waits that no pair had room for: CPU and disk. */
__u64 lost_ns[2];
__u64 lost_waits[2];

static __always_inline void charge(void *pairs, int disk, __u64 victim, __u64 culprit, __u64 ns, __u64 waits) {
    struct pair pair = {.victim = victim, .culprit = culprit};
    struct charge first = {.wait_ns = ns, .waits = waits}, *known;

    known = bpf_map_lookup_elem(pairs, &pair);
    if (!known) {
        if (!bpf_map_update_elem(pairs, &pair, &first, BPF_NOEXIST))
            return;
        known = bpf_map_lookup_elem(pairs, &pair); /* another CPU was quicker, or there is no room */
        if (!known) {
            __sync_fetch_and_add(&lost_ns[disk], ns);
            __sync_fetch_and_add(&lost_waits[disk], waits);
            return;
        }
    }
    __sync_fetch_and_add(&known->wait_ns, ns);
    if (waits)
        __sync_fetch_and_add(&known->waits, waits);
}

static __always_inline __u64 cgroup_id(const struct cgroup *cgroup) {
    return cgroup->kn->id;
}

/* A process is its number and when it began, in units of about a millisecond: numbers are used again. */
static __always_inline __u64 group_of(const struct task_struct___blame *task) {
    if (!task->pid)
        return IDLE;
    if (by_cgroup)
        return cgroup_id(task->cgroups->dfl_cgrp);
    return ((__u64)task->tgid << 32) | (__u32)(task->group_leader->start_boottime >> 20);
}

/* What groups that ended were called. */
struct name {
    char text[NAME_LENGTH];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, NAMES);
    __type(key, __u64);
    __type(value, struct name);
} names SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct name);
} scratch SEC(".maps");

static __always_inline struct name *blank(void) {
    __u32 zero = 0;
    return bpf_map_lookup_elem(&scratch, &zero);
}

/* The slices of a CPU, oldest first from newest + 1 on; each begins where the one before it ends. */
struct slice {
    __u64 end_ns;
    __u64 group;
};

struct cpu {
    __u64 newest;
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

static __always_inline bool throttled(const struct task_struct___blame *task) {
    const struct task_struct___throttled *new = (const void *)task;

    if (bpf_core_field_exists(new->throttled))
        return new->throttled;
    if (bpf_core_field_exists(struct cfs_rq, throttle_count))
        return task->se.cfs_rq->throttle_count > 0;
    return false;
}

/* The run queue of a task's CPU. Every task has one by way of its cfs_rq, an idle one too; the per-CPU variable itself
 * has an address for us only in kernels with CONFIG_KALLSYMS_ALL. */
static __always_inline const struct rq *queue_of(const struct task_struct___blame *task) {
    return task->se.cfs_rq->rq;
}

static __always_inline __u32 cpu_of(const struct task_struct___blame *task) {
    const struct task_struct___cpu *old = (const void *)task;

    if (bpf_core_field_exists(old->cpu))
        return old->cpu;
    return task->thread_info.cpu;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct___blame *prev, struct task_struct___blame *next) {
    __u32 number = bpf_get_smp_processor_id();
    struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
    __u64 now = queue_of(prev)->clock;

    if (!cpu)
        return 0;
    push(cpu, now, group_of(prev));
    if (prev->pid) {
        struct seen *of = &seen[(__u32)prev->pid % TASKS];

        if (of->pid == (__u32)prev->pid)
            of->throttled = throttled(prev);
        if (!by_cgroup && (prev->__state & TASK_DEAD) && prev->pid == prev->tgid) {
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
            __u64 victim = group_of(next);

            /* Waits that ended unseen: in a migration whose start was not known, or before its first run. */
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
int BPF_PROG(migrated, struct task_struct___blame *task, int to) {
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

/* Requests in flight, by the kernel's address of each; devices by that of their queue. */
struct sharer {
    __u64 group;
    __u64 requests;
};

struct device {
    struct bpf_spin_lock lock;
    __u32 pad;
    __u64 requests;
    struct sharer sharers[SHARERS];
};

struct in_flight {
    __u64 since_ns;
    __u64 queue;
    __u64 group;
    __u64 ahead;
    struct sharer sharers[SHARERS]; /* the groups of those ahead */
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, DEVICES);
    __type(key, __u64);
    __type(value, struct device);
} devices SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, REQUESTS);
    __type(key, __u64);
    __type(value, struct in_flight);
} requests SEC(".maps");

/* What a new device begins as: too large for the stack beside a request's record, and a lock cannot be copied from. */
struct zeros {
    __u64 words[sizeof(struct device) / sizeof(__u64)];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct zeros);
} no_device SEC(".maps");

static __always_inline struct device *device_of(__u64 queue) {
    struct device *device = bpf_map_lookup_elem(&devices, &queue);
    struct zeros *zeros;
    __u32 zero = 0;

    if (device)
        return device;
    zeros = bpf_map_lookup_elem(&no_device, &zero);
    if (!zeros)
        return 0;
    bpf_map_update_elem(&devices, &queue, zeros, BPF_NOEXIST);
    return bpf_map_lookup_elem(&devices, &queue);
}

static __always_inline void leave(struct device *device, __u64 group) {
    int i;

    bpf_spin_lock(&device->lock);
    if (device->requests)
        device->requests--;
    for (i = 0; i < SHARERS; i++)
        if (device->sharers[i].group == group && device->sharers[i].requests) {
            device->sharers[i].requests--;
            break;
        }
    bpf_spin_unlock(&device->lock);
}

/* Whose request it is: the cgroup its data are accounted to, else who submits it, here and now. */
static __always_inline __u64 submitter(const struct request *request) {
    const struct task_struct___blame *task = (const void *)bpf_get_current_task_btf();
    const struct bio *bio = request->bio;

    if (by_cgroup && bio && bpf_core_field_exists(bio->bi_blkg)) {
        const struct blkcg_gq *group = bio->bi_blkg;
        const struct cgroup *cgroup = group ? group->blkcg->css.cgroup : 0;

        /* Of a v1 hierarchy, or the root's, where writeback without cgroup support ends: says nothing. */
        if (cgroup && !cgroup->root->hierarchy_id && cgroup_id(cgroup) > 1)
            return cgroup_id(cgroup);
    }
    if (task->flags & PF_WQ_WORKER)
        return WRITEBACK;
    return group_of(task);
}

static __always_inline int arrived(const struct request *request) {
    struct in_flight entry = {};
    __u64 key = (__u64)request, queue = (__u64)request->q;
    struct device *device;
    int mine = -1, free = -1, i;

    if (bpf_map_lookup_elem(&requests, &key))
        return 0; /* issued after it was inserted, or again */
    device = device_of(queue);
    if (!device)
        return 0;
    entry.queue = queue;
    entry.group = submitter(request);
    entry.since_ns = bpf_ktime_get_ns();
    bpf_spin_lock(&device->lock);
    entry.ahead = device->requests++;
    for (i = 0; i < SHARERS; i++) {
        entry.sharers[i] = device->sharers[i];
        if (!device->sharers[i].requests)
            free = i;
        else if (device->sharers[i].group == entry.group)
            mine = i;
    }
    if (mine < 0)
        mine = free;
    if (mine >= 0 && mine < SHARERS) {
        device->sharers[mine].group = entry.group;
        device->sharers[mine].requests++;
    }
    bpf_spin_unlock(&device->lock);
    if (bpf_map_update_elem(&requests, &key, &entry, BPF_NOEXIST))
        leave(device, entry.group); /* no room: it is not seen at all */
    return 0;
}

static __always_inline int left(const struct request *request, bool done) {
    __u64 key = (__u64)request, ns, apart = 0, waits = 1;
    struct in_flight *entry = bpf_map_lookup_elem(&requests, &key);
    struct device *device;
    int i;

    if (!entry)
        return 0;
    device = bpf_map_lookup_elem(&devices, &entry->queue);
    if (device)
        leave(device, entry->group);
    ns = bpf_ktime_get_ns() - entry->since_ns;
    for (i = 0; done && i < SHARERS; i++) {
        __u64 count = entry->sharers[i].requests;

        if (!count)
            continue;
        charge(&disk_pairs, 1, entry->group, entry->sharers[i].group, ns * count / (entry->ahead + 1), waits);
        apart += count;
        waits = 0;
    }
    if (done && entry->ahead > apart)
        charge(&disk_pairs, 1, entry->group, OTHERS, ns * (entry->ahead - apart) / (entry->ahead + 1), waits);
    bpf_map_delete_elem(&requests, &key);
    return 0;
}

/* Since Linux 6.5 a request's start is told in its submitter's context; before, its insertion or issue has to do. */
SEC("tp_btf/block_io_start")
int BPF_PROG(io_started, struct request *request) {
    return arrived(request);
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(io_inserted, struct request *request) {
    return arrived(request);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(io_issued, struct request *request) {
    return arrived(request);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(io_completed, struct request *request) {
    return left(request, true);
}

/* It lives on in another request. */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(io_merged, struct request *request) {
    return left(request, false);
}
