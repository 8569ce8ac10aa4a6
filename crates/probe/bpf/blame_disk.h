/* Whose requests were ahead of a disk request: the second half of blame.bpf.c, where the rule is stated. */
#ifndef CONTEND_BLAME_DISK_H
#define CONTEND_BLAME_DISK_H

#include "blame.h"

#define REQUESTS 16384
#define DEVICES 256
#define SHARERS 12 /* groups with requests in one device at a time that are told apart */
#define PF_WQ_WORKER 0x20 /* include/linux/sched.h */

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
    __u64 start_time_ns;
} __reloc;

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
    const struct task_struct *task = (const void *)bpf_get_current_task_btf();
    const struct bio *bio = request->bio;

    if (by_cgroup && bio && bpf_core_field_exists(bio->bi_blkg)) {
        const struct blkcg_gq *group = bio->bi_blkg;
        const struct cgroup *cgroup = group ? group->blkcg->css.cgroup : 0;

        /* Of a v1 hierarchy, or the root's, where writeback without cgroup support ends: says nothing. */
        if (cgroup && !cgroup->root->hierarchy_id && cgroup_id(cgroup) > ROOT)
            return cgroup_id(cgroup);
    }
    if (task->flags & PF_WQ_WORKER)
        return WRITEBACK;
    return group_of(task);
}

/* The kernel uses a request's memory for the next one. An end that was not seen (BPF leaves events out while it is at
 * another of the same kind, and in contexts of the kernel's choice) would make the two of them one long request. */
static __always_inline int arrived(const struct request *request, bool begins) {
    struct in_flight entry = {}, *known;
    __u64 key = (__u64)request, queue = (__u64)request->q;
    struct device *device;
    int mine = -1, free = -1, i;

    known = bpf_map_lookup_elem(&requests, &key);
    if (known) {
        if (!begins && known->since_ns >= request->start_time_ns)
            return 0; /* issued after it was inserted, or again */
        device = bpf_map_lookup_elem(&devices, &known->queue);
        if (device)
            leave(device, known->group);
        bpf_map_delete_elem(&requests, &key);
    }
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
    if (done)
        add_used(1, entry->group, ns / (entry->ahead + 1));
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
    return arrived(request, true);
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(io_inserted, struct request *request) {
    return arrived(request, false);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(io_issued, struct request *request) {
    return arrived(request, false);
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

#endif
