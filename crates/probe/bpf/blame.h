/* Groups, what they are charged with and what they were called: for blame.bpf.c. */
#ifndef CONTEND_BLAME_H
#define CONTEND_BLAME_H

#include "kernel.h"

/* Groups that are none. Ids of cgroups and processes never come near. */
#define IDLE 0ULL
#define ROOT 1ULL                 /* of the v2 hierarchy; cgroups have small numbers, and processes theirs above 32 bits */
#define EARLIER (~0ULL)           /* ran before the ring begins */
#define BEFORE_MIGRATION (~1ULL)  /* waited on a CPU that is not known any more */
#define OWN_QUOTA (~2ULL)         /* held off by the bandwidth limit of its own cgroup */
#define OTHERS (~3ULL)            /* no room to keep them apart */
#define WRITEBACK (~4ULL)         /* the kernel, writing what others dirtied */

#define PAIRS 16384
#define NAMES 8192 /* of those that end within two ticks */
#define NAME_LENGTH 184

/* Since Linux 6.18 a task is throttled, before it was the queue it stands in. */
struct task_struct___throttled {
    bool throttled;
} __reloc;

/* On x86 before Linux 5.16. */
struct task_struct___cpu {
    unsigned int cpu;
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

/* What each group had of a resource itself: CPU time, its requests' own service. The culprit is 0 for CPU, 1 disk. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, PAIRS);
    __type(key, struct pair);
    __type(value, struct charge);
} used SEC(".maps");

/* What there was no room for, of CPU and disk: waits of pairs, and the use of groups. */
__u64 lost_ns[2];
__u64 lost_waits[2];
__u64 lost_used_ns[2];

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

static __always_inline void add_used(int disk, __u64 group, __u64 ns) {
    struct pair key = {.victim = group, .culprit = disk};
    struct charge first = {.wait_ns = ns}, *known = bpf_map_lookup_elem(&used, &key);

    if (!known) {
        if (!bpf_map_update_elem(&used, &key, &first, BPF_NOEXIST))
            return;
        known = bpf_map_lookup_elem(&used, &key); /* as in charge() */
        if (!known) {
            __sync_fetch_and_add(&lost_used_ns[disk], ns);
            return;
        }
    }
    __sync_fetch_and_add(&known->wait_ns, ns);
}

static __always_inline __u64 cgroup_id(const struct cgroup *cgroup) {
    return cgroup->kn->id;
}

/* A process is its number and when it began, in units of about a millisecond: numbers are used again. In the root are
 * the kernel's threads, and whatever nobody has put elsewhere: each of these processes is a group of its own. */
static __always_inline __u64 group_of(const struct task_struct *task) {
    if (!task->pid)
        return IDLE;
    if (by_cgroup) {
        __u64 id = cgroup_id(task->cgroups->dfl_cgrp);

        if (id > ROOT)
            return id;
    }
    return ((__u64)task->tgid << 32) | (__u32)(task->group_leader->start_boottime >> 20);
}

static __always_inline bool is_process(__u64 group) {
    return group >> 32;
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

#endif
