/* What every process has used: by the task iterator for those there are, by a ring buffer for those that ended.
 * User space (src/processes/bpf.rs) adds up; the layout of the records is the same there. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Bytes of a page, for the resident set; set before loading. */
const volatile __u64 page_bytes = 4096;

/* Where the per-CPU memory of each CPU lies from a per-CPU pointer (__per_cpu_offset, which modules and BPF programs can
 * name on kernels with CONFIG_KALLSYMS_ALL only). Found once by user space: `places` holds where one and the same
 * per-CPU pointer, `pointer`, leads to on each CPU. */
#define MOST_CPUS 1024
__u64 cpu_offsets[MOST_CPUS];
/* Those that there may be, or 0 for more than that. Set before loading: the verifier walks through every one of them. */
const volatile __u32 cpus = 0;
__u32 placed; /* not 0: cpu_offsets are known */
__u64 pointer;
__u64 places[MOST_CPUS];
__u32 here_id;

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} here SEC(".maps");

/* Number of the pass over all tasks; set before each. */
__u32 pass;

/* All is told of every process in one of so many passes, and else only of those that may have done something. */
#define REFRESH 32

/* Marks of what was told last, by the low bits of the process id. */
const volatile __u32 mark_mask = 0;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} marks SEC(".maps");

/* A task, or what the ended threads of a process used together. */
struct used {
    __u64 utime_ns; /* sampled at the tick, unlike exec_ns */
    __u64 stime_ns;
    __u64 exec_ns;
    __u64 voluntary;
    __u64 involuntary;
    __u64 minor_faults;
    __u64 major_faults;
    __u64 read_bytes;
    __u64 write_bytes;
};

struct thread {
    __u32 tgid;
    __u32 tid;
    __u64 run_delay_ns;
    struct used used;
};

/* Follows the record of a leader. */
struct process {
    __u64 start_ns;
    __u64 cgroup;
    __u64 rss_bytes;
    struct used ended;
    __u32 ppid;
    __u32 threads;
    char name[COMM_LENGTH];
};

struct leader {
    struct thread thread;
    struct process process;
};

/* Instead, of a process of one thread that has not run since all was told of it. */
struct same {
    __u32 tgid;
    __u32 zero; /* where a thread's record has its id */
};

/* In the ring: a thread is no more, and of a leader's process all that there was. */
struct end {
    __u64 start_ns; /* of the process */
    __u64 run_delay_ns;
    __u64 exec_ns;
    __u64 read_bytes;
    __u64 write_bytes;
    __u32 tgid;
    __u32 tid;
};

struct end_of_process {
    struct end end;
    struct process process;
    __u32 status;
    __u32 unused;
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 22);
} ends SEC(".maps");

/* Ends that the ring had no room for. */
__u64 lost;

static __always_inline void fill_thread(struct thread *to, struct task_struct *task) {
    to->tgid = task->tgid;
    to->tid = task->pid;
    to->run_delay_ns = task->sched_info.run_delay;
    to->used.utime_ns = task->utime;
    to->used.stime_ns = task->stime;
    to->used.exec_ns = task->se.sum_exec_runtime;
    to->used.voluntary = task->nvcsw;
    to->used.involuntary = task->nivcsw;
    to->used.minor_faults = task->min_flt;
    to->used.major_faults = task->maj_flt;
    to->used.read_bytes = 0;
    to->used.write_bytes = 0;
    if (bpf_core_field_exists(task->ioac.read_bytes)) { /* CONFIG_TASK_IO_ACCOUNTING */
        to->used.read_bytes = task->ioac.read_bytes;
        to->used.write_bytes = task->ioac.write_bytes;
    }
}

/* A counter that the CPUs keep parts of, of up to 32 pages each and of twice as many pages as there are CPUs beyond 16, so
 * that without them a set would be wrong by gigabytes on a host of 512: as percpu_counter_sum() adds them up. */
static __always_inline __s64 sum(struct percpu_counter *counter) {
    __s64 sum = counter->count;
    __u64 parts = (__u64)counter->counters;
    if (!placed)
        return sum;
    for (__u32 cpu = 0; cpu < MOST_CPUS && cpu < cpus; cpu++) {
        __s32 part = 0;
        bpf_probe_read_kernel(&part, sizeof(part), (void *)(parts + cpu_offsets[cpu]));
        sum += part;
    }
    return sum;
}

/* Resident pages: of files, anonymous and shared memory, as get_mm_rss() adds them up. */
static __always_inline __s64 resident(struct mm_struct *mm) {
    if (bpf_core_type_exists(struct mm_rss_stat)) {
        struct mm_struct___before_6_2 *old = (void *)mm;
        return BPF_CORE_READ(old, rss_stat.count[MM_FILEPAGES].counter) +
               BPF_CORE_READ(old, rss_stat.count[MM_ANONPAGES].counter) +
               BPF_CORE_READ(old, rss_stat.count[MM_SHMEMPAGES].counter);
    }
    return sum(&mm->rss_stat[MM_FILEPAGES]) + sum(&mm->rss_stat[MM_ANONPAGES]) + sum(&mm->rss_stat[MM_SHMEMPAGES]);
}

/* Run once: see cpu_offsets. */
SEC("iter/bpf_map")
int find_places(struct bpf_iter__bpf_map *ctx) {
    struct bpf_map *map = ctx->map;
    if (!map || map->id != here_id)
        return 0;
    __u32 zero = 0;
    void *pointers = (void *)map + bpf_core_field_offset(struct bpf_array, pptrs);
    bpf_probe_read_kernel(&pointer, sizeof(pointer), pointers);
    for (__u32 cpu = 0; cpu < MOST_CPUS && cpu < cpus; cpu++) {
        __u64 *place = bpf_map_lookup_percpu_elem(&here, &zero, cpu);
        if (place)
            places[cpu] = (__u64)place;
    }
    return 0;
}

static __always_inline void fill_process(struct process *to, struct task_struct *task) {
    struct signal_struct *signal = task->signal;
    struct mm_struct *mm = task->mm;
    to->start_ns = task->start_boottime;
    to->cgroup = cgroup_of(task);
    to->rss_bytes = 0;
    if (mm) {
        __s64 pages = resident(mm);
        if (pages > 0)
            to->rss_bytes = pages * page_bytes;
    }
    to->ended.utime_ns = signal->utime;
    to->ended.stime_ns = signal->stime;
    to->ended.exec_ns = signal->sum_sched_runtime;
    to->ended.voluntary = signal->nvcsw;
    to->ended.involuntary = signal->nivcsw;
    to->ended.minor_faults = signal->min_flt;
    to->ended.major_faults = signal->maj_flt;
    /* Not signal->ioac: a parent that waits for a child adds all the child's bytes to it (kernel/exit.c,
     * wait_task_zombie), and they would count twice. User space adds up those of threads that end. */
    to->ended.read_bytes = 0;
    to->ended.write_bytes = 0;
    to->ppid = task->real_parent->tgid;
    to->threads = signal->nr_threads;
    bpf_probe_read_kernel(to->name, COMM_LENGTH, task->comm);
}

static __always_inline void fill_end(struct end *to, struct task_struct *task) {
    to->start_ns = task->group_leader->start_boottime;
    to->run_delay_ns = task->sched_info.run_delay;
    to->exec_ns = task->se.sum_exec_runtime;
    to->read_bytes = 0;
    to->write_bytes = 0;
    if (bpf_core_field_exists(task->ioac.read_bytes)) {
        to->read_bytes = task->ioac.read_bytes;
        to->write_bytes = task->ioac.write_bytes;
    }
    to->tgid = task->tgid;
    to->tid = task->pid;
}

/* Differs from the one before when a process may have done something since: its leader has run, for what runs is
 * accounted to the nanosecond, or the number of its threads has changed. Of thousands of processes few run between two
 * samples, and to look at all of each is a dozen cache misses. Others change little of one that sleeps: its parent, its
 * cgroup, and its resident set where memory is taken from it; that is refreshed. */
static __always_inline __u64 mark_of(struct task_struct *leader, int threads) {
    return leader->se.sum_exec_runtime + (leader->start_boottime ^ (__u64)threads << 56) * 0x9e3779b97f4a7c15ull;
}

static __always_inline bool runs_now(struct task_struct *task) {
    return !bpf_core_field_exists(task->on_cpu) || task->on_cpu; /* CONFIG_SMP */
}

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx) {
    struct task_struct *task = ctx->task;
    struct leader record;
    if (!task)
        return 0;
    /* A record that the buffer has no room for comes again with the next read. */
    if (task->pid != task->tgid) {
        fill_thread(&record.thread, task);
        bpf_seq_write(ctx->meta->seq, &record.thread, sizeof(record.thread));
        return 0;
    }
    int threads = task->signal->nr_threads;
    __u64 mark = mark_of(task, threads);
    __u32 at = task->pid & mark_mask;
    __u64 *marked = bpf_map_lookup_elem(&marks, &at);
    if (marked && *marked == mark && threads == 1 && !runs_now(task) && (task->pid ^ pass) % REFRESH) {
        struct same same = {.tgid = task->tgid};
        bpf_seq_write(ctx->meta->seq, &same, sizeof(same));
        return 0;
    }
    fill_thread(&record.thread, task);
    fill_process(&record.process, task);
    if (!bpf_seq_write(ctx->meta->seq, &record, sizeof(record)) && marked)
        *marked = mark;
    return 0;
}

/* After the last switch away from a task and after it was reaped, so that its figures are final; but also a grace
 * period of RCU later (kernel/exit.c, delayed_put_task_struct). sched_process_exit would come before a task gives its
 * memory back, and before its last slice is accounted. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(task_freed, struct task_struct *task) {
    if (task->pid != task->tgid) {
        struct end *end = bpf_ringbuf_reserve(&ends, sizeof(*end), 0);
        if (!end) {
            __sync_fetch_and_add(&lost, 1);
            return 0;
        }
        fill_end(end, task);
        bpf_ringbuf_submit(end, BPF_RB_NO_WAKEUP);
        return 0;
    }
    struct end_of_process *last = bpf_ringbuf_reserve(&ends, sizeof(*last), 0);
    if (!last) {
        __sync_fetch_and_add(&lost, 1);
        return 0;
    }
    fill_end(&last->end, task);
    fill_process(&last->process, task);
    /* As wait() tells it (wait_task_zombie). */
    last->status = task->signal->flags & SIGNAL_GROUP_EXIT ? task->signal->group_exit_code : task->exit_code;
    last->unused = 0;
    bpf_ringbuf_submit(last, BPF_RB_NO_WAKEUP);
    return 0;
}
