//! Where the wall time of each job went, and the critical paths of jobs and of all of them together: each adds up to the
//! duration exactly.
//!
//! A path is walked from the end of a job back to its begin on the track where it ended; where the job had come from
//! another track, on that one before. A wait on it is replaced by what was waited for meanwhile: the holder of a lock,
//! who serves a message or item, whoever put an item, and so on where these wait themselves. The path of all jobs is
//! that of the one which ended last, before its begin that of its track and of who started it, back to when the first
//! job began.
use super::jobs::Job;
use super::links::Link;
use super::stacks::NONE;
use super::walk::{Follow, Ground, Piece, Walk};

/// Intervals that are looked at for all critical paths of jobs together.
const MOST_STEPS: u64 = 1 << 26;
/// And for the one of all jobs.
const MOST_BATCH_STEPS: u64 = 1 << 24;
/// Tracks that a job came from, one after the other.
const MOST_HOPS: usize = 1 << 16;

/// Of one job, or of all.
pub type Row = (Option<u32>, Piece, u64);

/// What was found.
#[derive(Debug, Default)]
pub struct Paths {
    /// Of each job as its track was.
    pub parts: Vec<Row>,
    /// The same, with what others did for it followed to where they did it.
    pub along: Vec<Row>,
    /// With waits followed; those of all jobs together first.
    pub critical: Vec<Row>,
    /// Jobs whose waits were not followed to their end, as it had been too much.
    pub unfollowed_jobs: u64,
}

/// All paths. `first` gives the first event of a track.
pub fn paths(ground: &Ground<'_>, jobs: &[Job], first: impl Fn(u32) -> u64) -> Paths {
    let mut paths = Paths::default();
    let mut by_job: Vec<Vec<u32>> = vec![Vec::new(); jobs.len()];
    for (at, link) in (0..).zip(ground.links) {
        if let Some(of) = by_job.get_mut(link.job as usize) {
            of.push(at);
        }
    }
    if let Some(last) = (0..jobs.len()).max_by_key(|&job| jobs[job].end_ns) {
        let begin = jobs.iter().map(|job| job.begin_ns).min().unwrap_or_default();
        let mut walk = Walk::new(ground, Follow::Everything, MOST_BATCH_STEPS);
        job_path(ground, &mut walk, &jobs[last], &by_job[last]);
        before(ground, &mut walk, jobs[last].track, begin, jobs[last].begin_ns, first);
        push(&mut paths.critical, None, walk);
    }
    let mut left = MOST_STEPS;
    for (number, (job, links)) in (0..).zip(jobs.iter().zip(&by_job)) {
        let mut walk = Walk::new(ground, Follow::Nothing, u64::MAX);
        job_path(ground, &mut walk, job, links);
        push(&mut paths.parts, Some(number), walk);
        let mut walk = Walk::new(ground, Follow::Messages, left);
        job_path(ground, &mut walk, job, links);
        left = walk.left;
        push(&mut paths.along, Some(number), walk);
        let mut walk = Walk::new(ground, Follow::Everything, left);
        job_path(ground, &mut walk, job, links);
        left = walk.left;
        paths.unfollowed_jobs += u64::from(left == 0);
        push(&mut paths.critical, Some(number), walk);
    }
    paths
}

/// The longest first.
fn push(rows: &mut Vec<Row>, job: Option<u32>, walk: Walk<'_, '_>) {
    let at = rows.len();
    rows.extend(walk.pieces.into_iter().map(|(piece, ns)| (job, piece, ns)));
    rows[at..].sort_unstable_by_key(|&(_, piece, ns)| (std::cmp::Reverse(ns), piece));
}

/// The job's own track from its end back, and where it had come from another one that before. `links` are sent on its
/// behalf, in the order they arrived.
fn job_path(ground: &Ground<'_>, walk: &mut Walk<'_, '_>, job: &Job, links: &[u32]) {
    let (mut track, mut to) = (job.end_track, job.end_ns);
    for _ in 0..MOST_HOPS {
        if track == job.track {
            break;
        }
        let arrived = |at: &&u32| {
            let link: &Link = &ground.links[**at as usize];
            link.to == track && link.to_ns <= to && link.from != NONE && link.from_ns >= job.begin_ns
        };
        let Some(&at) = links.iter().rev().find(arrived) else { break };
        let link = &ground.links[at as usize];
        walk.add(track, link.to_ns, to);
        walk.add_way(at, link.from_ns.min(link.to_ns), link.to_ns);
        (track, to) = (link.from, link.from_ns.min(link.to_ns));
    }
    walk.add(track, job.begin_ns, to);
}

/// What led to the begin of a job: its track, before the first event of that whoever started it.
fn before(
    ground: &Ground<'_>,
    walk: &mut Walk<'_, '_>,
    mut track: u32,
    from: u64,
    mut to: u64,
    first: impl Fn(u32) -> u64,
) {
    for _ in 0..MOST_HOPS {
        let began = first(track).clamp(from, to);
        // The message that started a thread is the first thing on its track.
        let start = ground.came(track, began).first().filter(|_| began > from);
        let Some(&at) = start else { break };
        let link = &ground.links[at as usize];
        walk.add(track, began, to);
        let sent = link.from_ns.clamp(from, began);
        walk.add_way(at, sent, began);
        (track, to) = (link.from, sent);
    }
    walk.add(track, from, to);
}
