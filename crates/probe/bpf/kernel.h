/* The fields of the kernel's own structures that the probes read, by CO-RE: libbpf finds each one's true offset in the
 * running kernel's BTF when it loads a program (docs.kernel.org/bpf/libbpf). No header of a kernel is needed to build.
 * Names and types are the kernel's (include/linux/sched.h and others). */
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

struct sched_entity {
    __u64 sum_exec_runtime;
} __reloc;

struct task_struct {
    int pid;
    int tgid;
    struct task_struct *group_leader;
    struct sched_entity se;
} __reloc;

struct seq_file;

struct bpf_iter_meta {
    struct seq_file *seq;
    __u64 session_id;
    __u64 seq_num;
} __reloc;

struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
} __reloc;

#endif
