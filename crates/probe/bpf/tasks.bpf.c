/* Every thread of the host, one record each, for whoever reads the iterator. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct record {
    __u32 tgid;
    __u32 tid;
    __u64 cpu_ns;
};

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx) {
    struct task_struct *task = ctx->task;
    if (!task)
        return 0;
    struct record record = {
        .tgid = task->tgid,
        .tid = task->pid,
        .cpu_ns = task->se.sum_exec_runtime,
    };
    bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
    return 0;
}
