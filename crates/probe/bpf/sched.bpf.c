/* How long tasks run, are off a CPU and wait for one: histograms by process, cgroup or thread, from sched_switch alone.
 *
 * The kernel itself stamps when a task was queued and when it got its CPU (kernel/sched/stats.h, sched_info_*), so no
 * hook on wake-ups is needed; at the tracepoint the stamps of the switch before are still there. Read and named by
 * src/sched.rs, which has the same layouts. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { BY_PROCESS, BY_CGROUP, BY_THREAD };
enum { ON_CPU, OFF_CPU, RUN_QUEUE, KINDS };

#define BUCKETS 128 /* four an octave, from 2^7 ns to 2^38 ns; what is shorter in the first, what is longer in the last */
#define FIRST_OCTAVE 7
#define OTHER 0 /* the slot of subjects that there is no slot for */

/* Set before loading. */
const volatile __u32 by = BY_PROCESS;
const volatile __u32 slots = 1;
const volatile __u32 task_mask = 0;
const volatile bool stacks = false;

/* What one subject did on one CPU, ever. Written with that CPU's run queue locked, so by nobody else. */
struct cell {
    __u64 ns[KINDS];
    __u32 switches; /* away from it, each the end of a time on the CPU */
    __u32 migrations;
    __u32 counts[KINDS][BUCKETS];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1); /* CPUs × slots */
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct cell));
} cells SEC(".maps");

/* A task between two switches. One cache line, as neighbours in this array run on different CPUs. */
struct task {
    __u32 tid; /* whose this is: with fewer entries than ids, another may share it */
    __u32 slot;
    __u64 out_ns;       /* since when it has no CPU; 0 while it has one, and where unknown */
    __u64 run_delay_ns; /* all it had ever waited by its last switch */
    __u64 group;        /* its css_set then */
    __u32 cpu;          /* where that was */
    __s32 kernel_stack;
    __s32 user_stack;
    __u32 unused[5];
};

/* By the low bits of the thread id: cheaper than task storage, measured. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct task);
} tasks SEC(".maps");

struct subject {
    __u64 key;
    __u32 tgid;
    __u32 tid;
    __u32 ended;
    __u32 unused;
    char process[COMM_LENGTH];
    char thread[COMM_LENGTH];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1); /* slots */
    __type(key, __u32);
    __type(value, struct subject);
} subjects SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* slots */
    __type(key, __u64);
    __type(value, __u32);
} slot_of SEC(".maps");

/* Slots that nobody has, that of the lowest number on top at first: those ever used stay together. */
struct {
    __uint(type, BPF_MAP_TYPE_STACK);
    __uint(max_entries, 1); /* slots */
    __type(value, __u32);
} spare SEC(".maps");

#define STACK_DEPTH 127 /* PERF_MAX_STACK_DEPTH */

struct {
    __uint(type, BPF_MAP_TYPE_STACK_TRACE);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, STACK_DEPTH * sizeof(__u64));
} traces SEC(".maps");

struct wait {
    __u32 slot;
    __u32 tgid;
    __s32 kernel_stack;
    __s32 user_stack;
};

struct waited {
    __u64 ns;
    __u64 count;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, struct wait);
    __type(value, struct waited);
} waits SEC(".maps");

__u64 without_slot; /* subjects that went to OTHER */
__u64 lost_stacks;

static __always_inline __u32 bucket(__u64 ns) {
    __u32 octave = 0;
    __u64 rest = ns;
    if (ns >> FIRST_OCTAVE == 0)
        return 0;
    if (rest >> 32) {
        rest >>= 32;
        octave = 32;
    }
    if (rest >> 16) {
        rest >>= 16;
        octave += 16;
    }
    if (rest >> 8) {
        rest >>= 8;
        octave += 8;
    }
    if (rest >> 4) {
        rest >>= 4;
        octave += 4;
    }
    if (rest >> 2) {
        rest >>= 2;
        octave += 2;
    }
    octave += rest >> 1;
    __u32 at = 1 + (octave - FIRST_OCTAVE) * 4 + ((ns >> (octave - 2)) & 3);
    return at < BUCKETS ? at : BUCKETS - 1;
}

static __always_inline void count(struct cell *cell, __u32 kind, __u64 ns) {
    cell->ns[kind] += ns;
    cell->counts[kind][bucket(ns) & (BUCKETS - 1)]++;
}

static __always_inline struct cell *cell_of(__u32 cpu, __u32 slot) {
    __u32 at = cpu * slots + slot;
    return bpf_map_lookup_elem(&cells, &at);
}

static __always_inline struct task *task_of(struct task_struct *task) {
    __u32 at = task->pid & task_mask;
    return bpf_map_lookup_elem(&tasks, &at);
}

static __always_inline __u64 key_of(struct task_struct *task) {
    if (by == BY_CGROUP)
        return cgroup_of(task);
    if (by == BY_THREAD)
        return (__u64)task->pid << 32 | (__u32)(task->start_boottime >> 20);
    return (__u64)task->tgid << 32 | (__u32)(task->group_leader->start_boottime >> 20);
}

/* The slot of its subject; a new one where it has none yet. */
static __noinline __u32 assign(struct task_struct *task) {
    __u64 key = key_of(task);
    __u32 slot, *found = bpf_map_lookup_elem(&slot_of, &key);
    if (found)
        return *found;
    if (bpf_map_pop_elem(&spare, &slot)) {
        __sync_fetch_and_add(&without_slot, 1);
        return OTHER;
    }
    struct subject *subject = bpf_map_lookup_elem(&subjects, &slot);
    if (!subject)
        return OTHER;
    subject->key = key;
    subject->tgid = task->tgid;
    subject->tid = task->pid;
    subject->ended = 0;
    bpf_probe_read_kernel(subject->process, COMM_LENGTH, task->group_leader->comm);
    bpf_probe_read_kernel(subject->thread, COMM_LENGTH, task->comm);
    if (bpf_map_update_elem(&slot_of, &key, &slot, BPF_NOEXIST)) {
        bpf_map_push_elem(&spare, &slot, 0); /* another thread of it was faster, on another CPU */
        found = bpf_map_lookup_elem(&slot_of, &key);
        return found ? *found : OTHER;
    }
    return slot;
}

/* Whether what is kept is of this task, and of its group of now. */
static __always_inline bool is_of(struct task *kept, struct task_struct *task) {
    return kept->tid == (__u32)task->pid && (by != BY_CGROUP || kept->group == (__u64)task->cgroups);
}

static __always_inline void keep(struct task *kept, struct task_struct *task) {
    kept->slot = assign(task);
    kept->tid = task->pid;
    kept->group = (__u64)task->cgroups;
}

static __always_inline void charge_stack(struct task *kept, __u32 tgid, __u64 ns) {
    struct wait wait = {
        .slot = kept->slot, .tgid = tgid, .kernel_stack = kept->kernel_stack, .user_stack = kept->user_stack};
    struct waited *waited = bpf_map_lookup_elem(&waits, &wait);
    if (!waited) {
        struct waited none = {};
        bpf_map_update_elem(&waits, &wait, &none, BPF_NOEXIST);
        waited = bpf_map_lookup_elem(&waits, &wait);
        if (!waited) {
            __sync_fetch_and_add(&lost_stacks, 1);
            return;
        }
    }
    __sync_fetch_and_add(&waited->ns, ns);
    __sync_fetch_and_add(&waited->count, 1);
}

/* It has a CPU again, after a wait in the run queue of waited_ns up to now. */
static __always_inline void resumes(struct cell *cell, struct task *kept, struct task_struct *task, __u64 waited_ns,
                                    __u64 now, __u32 cpu) {
    count(cell, RUN_QUEUE, waited_ns);
    kept->run_delay_ns += waited_ns;
    if (kept->out_ns) {
        __u64 off_ns = now - kept->out_ns;
        count(cell, OFF_CPU, off_ns);
        if (stacks && kept->kernel_stack >= 0)
            charge_stack(kept, task->tgid, off_ns);
        kept->out_ns = 0;
    }
    if (kept->cpu != cpu)
        cell->migrations++;
    kept->cpu = cpu;
}

static __always_inline void leaves(void *ctx, struct task_struct *task, bool preempted, __u64 now, __u32 cpu) {
    struct task *kept = task_of(task);
    if (!kept)
        return;
    if (is_of(kept, task)) {
        struct cell *cell = cell_of(cpu, kept->slot);
        __u64 since = task->sched_info.last_arrival;
        if (cell) {
            /* Linux 6.18 was seen to keep a few switches in 100,000 from every kind of tracer, mostly from idle: what
             * is then not known of its arrival, the kernel's stamps still tell. */
            if (kept->out_ns && since > kept->out_ns)
                resumes(cell, kept, task, task->sched_info.run_delay - kept->run_delay_ns, since, cpu);
            cell->switches++;
            count(cell, ON_CPU, now - since);
        }
    } else {
        keep(kept, task); /* it ran before we watched: no one knows since when */
    }
    kept->out_ns = now;
    kept->run_delay_ns = task->sched_info.run_delay;
    kept->cpu = cpu;
    if (stacks) {
        kept->kernel_stack = kept->user_stack = -1;
        if (!preempted && task->__state != TASK_RUNNING && !(task->__state & TASK_DEAD)) {
            kept->kernel_stack = bpf_get_stackid(ctx, &traces, 0);
            kept->user_stack = bpf_get_stackid(ctx, &traces, BPF_F_USER_STACK);
            if (kept->kernel_stack < 0)
                __sync_fetch_and_add(&lost_stacks, 1);
        }
    }
}

static __always_inline void arrives(struct task_struct *task, __u64 now, __u32 cpu) {
    struct task *kept = task_of(task);
    if (!kept)
        return;
    __u64 queued_ns = task->sched_info.last_queued;
    /* A wait in two parts, as when it is moved to another CPU's queue, is in the run delay but for its last part. */
    __u64 waited_ns = queued_ns ? now - queued_ns : 0;
    bool first = task->sched_info.pcount == 0;
    if (first || !is_of(kept, task)) {
        bool moved = !first && kept->tid == (__u32)task->pid; /* to another cgroup */
        keep(kept, task);
        if (!moved) {
            kept->out_ns = 0;
            kept->run_delay_ns = first ? 0 : task->sched_info.run_delay;
            kept->cpu = cpu;
            kept->kernel_stack = kept->user_stack = -1;
        }
    }
    struct cell *cell = cell_of(cpu, kept->slot);
    if (!cell)
        return;
    waited_ns += task->sched_info.run_delay - kept->run_delay_ns;
    resumes(cell, kept, task, waited_ns, now, cpu);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempted, struct task_struct *prev, struct task_struct *next) {
    __u64 now = clock_of(prev);
    __u32 cpu = bpf_get_smp_processor_id();
    if (prev->pid)
        leaves(ctx, prev, preempted, now, cpu);
    if (next->pid)
        arrives(next, now, cpu);
    return 0;
}

/* exec, or a thread that names itself. */
SEC("tp_btf/task_rename")
int BPF_PROG(renamed, struct task_struct *task, const char *name) {
    struct task *kept = task_of(task);
    if (!kept || kept->tid != (__u32)task->pid || kept->slot == OTHER)
        return 0;
    struct subject *subject = bpf_map_lookup_elem(&subjects, &kept->slot);
    if (!subject)
        return 0;
    if (task->pid == task->tgid)
        bpf_probe_read_kernel(subject->process, COMM_LENGTH, name);
    if (by == BY_THREAD)
        bpf_probe_read_kernel(subject->thread, COMM_LENGTH, name);
    return 0;
}

/* Its slot is free when user space has read what it did last. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(exits, struct task_struct *task) {
    struct task *kept = task_of(task);
    if (!kept || kept->tid != (__u32)task->pid || kept->slot == OTHER)
        return 0;
    if (by == BY_PROCESS && task->signal->live.counter)
        return 0;
    struct subject *subject = bpf_map_lookup_elem(&subjects, &kept->slot);
    if (subject)
        subject->ended = 1;
    return 0;
}
