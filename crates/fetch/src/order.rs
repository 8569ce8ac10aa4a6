//! What is to be fetched, as contend writes it: one JSON document on stdin, so that a token or a password is on no
//! command line.
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::digest;
use crate::problem::{Problem, Result};

/// The order.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// http or https, with user and password where the server wants them.
    pub url: String,
    /// More headers, for the server of `url` only: they are not sent where it redirects to.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The file to write; None: stdout.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// What the content must hash to.
    #[serde(default)]
    pub checksum: Option<Checksum>,
    /// Bytes, where they are known from elsewhere.
    #[serde(default)]
    pub size: Option<u64>,
    /// CPU time of this process a second of wall time: 0.2 is a fifth of one CPU.
    #[serde(default)]
    pub cpu_max: Option<f64>,
    /// Bytes a second.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Added to the niceness; with it the disk is used at the lowest of the usual priorities.
    #[serde(default)]
    pub nice: i32,
    /// Give up on a server that sends nothing for so long, in seconds.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: f64,
    /// How often in a row to ask again without a byte of progress.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// Start from the first byte whatever is there.
    #[serde(default)]
    pub anew: bool,
    /// Authorities to trust instead of the system's, PEM.
    #[serde(default)]
    pub cacert: Option<PathBuf>,
    /// A certificate of ours and its key, PEM.
    #[serde(default)]
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// False: whoever answers is believed.
    #[serde(default = "yes")]
    pub verify: bool,
    /// Nothing on stderr but errors.
    #[serde(default)]
    pub quiet: bool,
    /// The outcome as one JSON document, on stdout, or on stderr where the content goes to stdout.
    #[serde(default)]
    pub json: bool,
    /// What it is called in messages.
    #[serde(default)]
    pub name: Option<String>,
}

/// Headers that say which bytes come and how: with others than ours what comes is not what is counted and verified.
const OURS: [&str; 11] = [
    "Accept-Encoding",
    "Connection",
    "Content-Length",
    "Expect",
    "If-Range",
    "Proxy-Authorization",
    "Proxy-Connection",
    "Range",
    "TE",
    "Transfer-Encoding",
    "Upgrade",
];

/// An algorithm and its digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checksum {
    /// sha512, sha384, sha256, sha1 or md5.
    pub algorithm: String,
    /// Hexadecimal.
    pub value: String,
}

fn default_timeout_s() -> f64 {
    30.0
}

fn default_retries() -> u32 {
    5
}

fn yes() -> bool {
    true
}

impl Order {
    /// The order of a JSON document.
    pub fn parse(text: &str) -> Result<Self> {
        let mut order: Self = serde_json::from_str(text).map_err(|error| {
            Problem::bad_input(format!("not an order: {error}"), "contend fetch writes it")
        })?;
        if let Some(checksum) = &mut order.checksum {
            checksum.value.make_ascii_lowercase();
            let digits = digest::digits(&checksum.algorithm)?;
            if checksum.value.len() != digits
                || !checksum.value.bytes().all(|byte| byte.is_ascii_hexdigit())
            {
                return Err(Problem::bad_input(
                    format!("'{}' is no {} checksum", checksum.value, checksum.algorithm),
                    format!("it has {digits} hexadecimal digits"),
                ));
            }
        }
        for (name, value) in [
            ("cpu_max", order.cpu_max),
            ("rate", order.rate),
            ("timeout_s", Some(order.timeout_s)),
        ] {
            if value.is_some_and(|value| !(value.is_finite() && value > 0.0)) {
                return Err(Problem::bad_input(
                    format!("{name} must be above zero"),
                    "leave it out for no limit",
                ));
            }
        }
        for (name, value) in &order.headers {
            if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                return Err(Problem::bad_input(
                    format!("'{name}' is set by the download itself"),
                    "leave that header out",
                ));
            }
            let sound = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b':')
                && !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
            if !sound {
                return Err(Problem::bad_input(
                    format!("'{name}' is no header"),
                    "write it like 'Name: value'",
                ));
            }
        }
        Ok(order)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refused(more: &str) -> String {
        Order::parse(&format!(r#"{{"url": "http://h/x"{more}}}"#))
            .unwrap_err()
            .message
    }

    #[test]
    fn the_least_order() {
        let order = Order::parse(r#"{"url": "http://h/x"}"#).unwrap();
        assert!(order.verify && order.output.is_none() && order.retries == 5);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(refused(r#", "chekcsum": 1"#).contains("chekcsum"));
        assert!(refused(r#", "checksum": {"algorithm": "md5", "value": "12"}"#).contains("'12'"));
        assert!(refused(r#", "checksum": {"algorithm": "crc", "value": "12"}"#).contains("'crc'"));
        assert!(refused(r#", "rate": 0"#).contains("rate"));
        assert!(refused(r#", "headers": [["A", "b\r\nC: d"]]"#).contains("'A'"));
        assert!(refused(r#", "headers": [["A b", "c"]]"#).contains("'A b'"));
        assert!(refused(r#", "headers": [["range", "bytes=0-9"]]"#).contains("'range'"));
    }

    #[test]
    fn digits_may_be_upper_case() {
        let value = "D41D8CD98F00B204E9800998ECF8427E";
        let order = format!(
            r#"{{"url": "http://h/", "checksum": {{"algorithm": "md5", "value": "{value}"}}}}"#
        );
        assert_eq!(
            Order::parse(&order).unwrap().checksum.unwrap().value,
            value.to_lowercase()
        );
    }
}
