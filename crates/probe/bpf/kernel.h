/* The fields of the kernel's own structures that the probes read, by CO-RE: libbpf finds each one's true offset in the
 * running kernel's BTF when it loads a program (docs.kernel.org/bpf/libbpf). No header of a kernel is needed to build.
 * Names and types are the kernel's (include/linux/sched.h and others), from 5.15 on; what a kernel may lack is asked
 * for with bpf_core_field_exists before it is read. A name after ___ is a flavour: libbpf drops it. */
#ifndef CONTEND_KERNEL_H
#define CONTEND_KERNEL_H

#include <linux/types.h>
#include <stdbool.h>

#define __reloc __attribute__((preserve_access_index))

/* bpf_helpers.h wants these names; <linux/bpf.h> has the rest. */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define COMM_LENGTH 16           /* TASK_COMM_LEN */
#define TASK_RUNNING 0           /* task_struct.__state: everything else is blocked, stopped or dead */
#define TASK_DEAD 0x80
#define SIGNAL_GROUP_EXIT 4      /* signal_struct.flags */

typedef struct {
    int counter;
} __reloc atomic_t;

typedef struct {
    long counter;
} __reloc atomic_long_t;

/* include/linux/percpu_counter.h: count lacks what is still in the CPUs' own parts, less than a batch each. */
struct percpu_counter {
    long long count;
    int *counters;
} __reloc;

enum { MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS, MM_SHMEMPAGES, NR_MM_COUNTERS };

struct mm_struct {
    struct percpu_counter rss_stat[NR_MM_COUNTERS]; /* since 6.2 */
} __reloc;

struct mm_rss_stat {
    atomic_long_t count[NR_MM_COUNTERS];
} __reloc;

struct mm_struct___before_6_2 {
    struct mm_rss_stat rss_stat;
} __reloc;

struct kernfs_node {
    struct kernfs_node *__parent; /* `parent` before 6.15 */
    const char *name;
    __u64 id;
} __reloc;

struct cgroup_root {
    int hierarchy_id; /* 0: the v2 hierarchy */
} __reloc;

struct cgroup {
    struct kernfs_node *kn;
    struct cgroup_root *root;
} __reloc;

struct css_set {
    struct cgroup *dfl_cgrp; /* its place in the v2 hierarchy */
} __reloc;

struct task_io_accounting {
    __u64 read_bytes;
    __u64 write_bytes;
} __reloc;

/* What threads that ended have used, the leader's part added when it is reaped (kernel/exit.c, __exit_signal). */
struct signal_struct {
    atomic_t live;
    unsigned int nr_threads;
    int group_exit_code;
    unsigned int flags;
    __u64 utime;
    __u64 stime;
    unsigned long nvcsw;
    unsigned long nivcsw;
    unsigned long min_flt;
    unsigned long maj_flt;
    struct task_io_accounting ioac;
    unsigned long long sum_sched_runtime;
} __reloc;

struct rq {
    __u64 clock;
    struct task_struct *curr;
    struct task_struct *idle;
} __reloc;

struct cfs_rq {
    struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
    int throttle_count; /* with CONFIG_CFS_BANDWIDTH */
} __reloc;

struct sched_entity {
    __u64 sum_exec_runtime;
    struct cfs_rq *cfs_rq; /* with CONFIG_FAIR_GROUP_SCHED; that of its CPU whatever its scheduling class */
} __reloc;

/* Stamps are of the clock of the CPU's run queue (rq_clock), which is not CLOCK_MONOTONIC. */
struct sched_info {
    unsigned long pcount;
    unsigned long long run_delay;
    unsigned long long last_arrival;
    unsigned long long last_queued;
} __reloc;

struct thread_info {
    __u32 cpu; /* on x86 since 5.16 */
} __reloc;

struct task_struct {
    struct thread_info thread_info; /* with CONFIG_THREAD_INFO_IN_TASK */
    unsigned int on_rq; /* int, and of one byte in 7.2: libbpf fits the load to that where it has no sign */
    unsigned int __state;
    unsigned int flags;
    unsigned int on_cpu; /* the same */
    int exit_state;
    int exit_code;
    int pid;
    int tgid;
    struct task_struct *real_parent;
    struct task_struct *group_leader;
    struct sched_entity se;
    struct sched_info sched_info;
    struct mm_struct *mm;
    struct signal_struct *signal;
    struct css_set *cgroups;
    struct task_io_accounting ioac;
    __u64 utime;
    __u64 stime;
    unsigned long nvcsw;
    unsigned long nivcsw;
    __u64 start_boottime;
    unsigned long min_flt;
    unsigned long maj_flt;
    char comm[COMM_LENGTH];
} __reloc;

struct seq_file;

struct bpf_iter_meta {
    struct seq_file *seq;
    __u64 session_id;
    __u64 seq_num;
} __reloc;

struct bpf_map {
    __u32 id;
} __reloc;

struct bpf_array {
    void *pptrs[0]; /* of a per-CPU array: each entry's per-CPU pointer */
} __reloc;

struct bpf_iter__bpf_map {
    struct bpf_iter_meta *meta;
    struct bpf_map *map;
} __reloc;

struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
} __reloc;

/* Id of a task's cgroup in the v2 hierarchy: the inode of its directory. */
static __always_inline __u64 cgroup_of(struct task_struct *task) {
    return task->cgroups->dfl_cgrp->kn->id;
}

/* The clock of the run queue of a task's CPU, as of its last update. In sched_switch that is now: __schedule() has
 * just updated it, and sched_info_switch(), which comes after the tracepoint, will take the same. Reached through the
 * task because `runqueues`, a variable, is in the symbol table of kernels with CONFIG_KALLSYMS_ALL only. */
static __always_inline __u64 clock_of(struct task_struct *task) {
    return task->se.cfs_rq->rq->clock;
}

#endif
