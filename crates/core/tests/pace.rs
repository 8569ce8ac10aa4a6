//! The pacer against real servers on the loopback address, whose behaviour is known.
#![allow(clippy::unwrap_used)]
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use contend_core::clock::monotonic_ns;
use contend_core::pace::target::Keys;
use contend_core::pace::{Arrivals, Config, Outcome, Request, Run, Summary, Target, run, schedule::schedule};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Serve every connection in a thread: `behave` is called for each request and says whether to go on.
fn serve(behave: impl Fn(&mut TcpStream) -> bool + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let behave = Arc::new(behave);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let behave = Arc::clone(&behave);
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while matches!(lines.read_line(&mut line), Ok(n) if n > 0) {
                    if line == "\r\n" && !behave(&mut stream) {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    format!("http://{address}/")
}

fn pace(url: &str, rate: f64, seconds: f64, connections: usize, timeout_s: f64) -> (Run, Summary) {
    let duration_ns = (seconds * 1e9) as u64;
    let times = schedule(Arrivals::Constant, rate, duration_ns, 1).unwrap();
    let config =
        Config { connections, timeout_ns: (timeout_s * 1e9) as u64, drain_ns: 1_000_000_000, duration_ns };
    let target = Target::parse(url, Keys::default(), 1).unwrap();
    let result = run(target, &config, &times, || false).unwrap();
    let summary = Summary::of(&result);
    assert_eq!(summary.due, times.len());
    assert_eq!(
        summary.ok + summary.refused + summary.broken + summary.timed_out + summary.unfinished,
        summary.due
    );
    (result, summary)
}

/// What a pacer can do that gets its CPU, it does in one of a few tries on a host whose CPUs others use too.
fn in_one_of(tries: usize, done: impl Fn() -> bool) {
    assert!((0..tries).any(|_| done()), "not in one of {tries}");
}

#[test]
fn a_stall_shows_in_full_though_a_closed_loop_hides_it() {
    const PERIOD: u64 = 1_000_000_000;
    const STALL: u64 = 150_000_000;
    let origin = monotonic_ns();
    let stall_left = move |now: u64| {
        let phase = (now - origin) % PERIOD;
        STALL.saturating_sub(phase)
    };
    let url = serve(move |stream| {
        thread::sleep(Duration::from_nanos(stall_left(monotonic_ns())));
        stream.write_all(ANSWER).is_ok()
    });
    in_one_of(3, || {
        let (result, summary) = pace(&url, 400.0, 2.0, 2, 5.0);
        assert_eq!(summary.ok, 800);
        // The truth: a request that is due in a stall is answered when the stall ends, any other at once.
        let mut truth: Vec<u64> =
            result.requests.iter().map(|r| stall_left(result.start_ns + r.intended_ns)).collect();
        truth.sort_unstable();
        let expected = truth[truth.len() * 99 / 100 - 1] as f64;
        let shown = summary.latency[2].unwrap() as f64;
        assert!(shown > 0.95 * expected, "p99 shown {shown}, true {expected}");
        let closed = summary.service[2].unwrap() as f64;
        shown < 1.05 * expected && closed < expected / 3.0
    });
}

#[test]
fn unanswered_requests_count_with_the_time_they_waited() {
    let url = serve(|_| true); // takes requests and never answers
    let (result, summary) = pace(&url, 100.0, 0.5, 4, 60.0);
    assert_eq!((summary.ok, summary.unfinished, summary.sent), (0, 50, 4));
    let first = result.requests[0];
    assert!(first.done_ns - first.intended_ns >= 700_000_000, "{first:?}");
    assert!(summary.latency[4].unwrap() >= 700_000_000);
    assert_eq!(summary.service[0], None);
}

#[test]
fn timeouts_free_the_connection() {
    let count = AtomicUsize::new(0);
    let url =
        serve(move |stream| count.fetch_add(1, Ordering::SeqCst) == 0 || stream.write_all(ANSWER).is_ok());
    let (result, summary) = pace(&url, 50.0, 0.5, 1, 0.6);
    assert_eq!((summary.timed_out, summary.ok), (1, 24));
    assert!((600_000_000..1_200_000_000).contains(&(result.requests[0].done_ns)), "{:?}", result.requests[0]);
    assert!(result.requests[1].queued && result.requests[1].outcome == Outcome::Ok);
}

#[test]
fn a_server_that_closes_is_met_with_a_new_connection() {
    // Every connection is good for 10 requests, then the server hangs up without a word, as idle servers do.
    let url = {
        let served = Mutex::new(std::collections::HashMap::new());
        serve(move |stream| {
            let mut served = served.lock().unwrap();
            let count = served.entry(stream.peer_addr().unwrap()).or_insert(0);
            *count += 1;
            stream.write_all(ANSWER).unwrap();
            if *count == 10 {
                stream.shutdown(std::net::Shutdown::Both).unwrap();
            }
            *count < 10
        })
    };
    let (result, summary) = pace(&url, 400.0, 0.5, 2, 5.0);
    assert_eq!((summary.ok, summary.broken), (200, 0));
    assert!(result.reconnects >= 18, "{}", result.reconnects);
}

#[test]
fn errors_of_the_application_and_broken_answers_are_told_apart() {
    let count = AtomicUsize::new(0);
    let url = serve(move |stream| match count.fetch_add(1, Ordering::SeqCst) % 4 {
        0 => stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").is_ok(),
        1 => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut").unwrap();
            false
        }
        _ => stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
            .is_ok(),
    });
    let (result, summary) = pace(&url, 100.0, 0.4, 1, 5.0);
    assert_eq!((summary.refused, summary.broken, summary.ok), (10, 10, 20));
    assert_eq!(result.last_error, "the server closed the connection");
}

#[test]
fn nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let target = Target::parse(&format!("http://127.0.0.1:{port}/"), Keys::default(), 1).unwrap();
    let config =
        Config { connections: 2, timeout_ns: 1_000_000_000, drain_ns: 0, duration_ns: 1_000_000_000 };
    let error = run(target, &config, &[0], || false).unwrap_err();
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[test]
fn the_rate_is_kept_and_the_generator_is_on_time() {
    let url = serve(|stream| stream.write_all(ANSWER).is_ok());
    in_one_of(5, || {
        let (result, summary) = pace(&url, 1000.0, 0.5, 8, 5.0);
        assert_eq!(summary.ok, 500);
        let in_order = |r: &Request| r.sent_ns.unwrap() >= r.intended_ns && r.done_ns >= r.sent_ns.unwrap();
        assert!(result.requests.iter().all(in_order));
        assert!(result.cpu_ns > 0);
        // Of the median request.
        (summary.rate_achieved() / 1000.0 - 1.0).abs() < 0.05 && summary.lateness[0].unwrap() < 2_000_000
    });
}

#[test]
fn the_caller_can_end_it_though_nothing_happens() {
    let url = serve(|stream| stream.write_all(ANSWER).is_ok());
    let config =
        Config { connections: 1, timeout_ns: 1_000_000_000, drain_ns: 0, duration_ns: 60_000_000_000 };
    let target = Target::parse(&url, Keys::default(), 1).unwrap();
    let began = monotonic_ns();
    // Two requests, half a minute apart; no signal ever comes.
    let result = run(target, &config, &[0, 30_000_000_000], || monotonic_ns() - began > 300_000_000).unwrap();
    assert!(result.interrupted && result.requests[0].outcome == Outcome::Ok);
    assert!(monotonic_ns() - began < 10_000_000_000);
}
