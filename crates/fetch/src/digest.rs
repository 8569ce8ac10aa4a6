//! Checksums, by the implementation that uses the fewest cycles a byte here (docs/adr/0024): the host's OpenSSL, else
//! AWS-LC, which TLS brings along anyway.
use std::ffi::CStr;

use aws_lc_rs::digest as aws;
use md5::Digest as _;

use crate::libcrypto;
use crate::problem::{Problem, Result};

/// A checksum in the making.
pub enum Digest {
    /// Of the host's OpenSSL.
    Host(libcrypto::Context),
    /// sha1, sha256, sha384, sha512.
    Sha(aws::Context),
    /// md5: of images that older Glances made.
    Md5(Box<md5::Md5>),
}

struct Known {
    name: &'static str,
    host: &'static CStr,
    own: Option<&'static aws::Algorithm>,
}

/// Algorithms by the names that Glance's `os_hash_algo` and `--checksum` use.
static KNOWN: [Known; 5] = [
    Known {
        name: "sha512",
        host: c"SHA512",
        own: Some(&aws::SHA512),
    },
    Known {
        name: "sha384",
        host: c"SHA384",
        own: Some(&aws::SHA384),
    },
    Known {
        name: "sha256",
        host: c"SHA256",
        own: Some(&aws::SHA256),
    },
    Known {
        name: "sha1",
        host: c"SHA1",
        own: Some(&aws::SHA1_FOR_LEGACY_USE_ONLY),
    },
    Known {
        name: "md5",
        host: c"MD5",
        own: None,
    },
];

impl Digest {
    /// A new one. Bad input for an algorithm that is not there.
    pub fn new(algorithm: &str) -> Result<Self> {
        let known = find(algorithm)?;
        Ok(libcrypto::Context::new(known.host).map_or_else(|| Self::own(known), Self::Host))
    }

    fn own(known: &Known) -> Self {
        known.own.map_or_else(
            || Self::Md5(Box::default()),
            |algorithm| Self::Sha(aws::Context::new(algorithm)),
        )
    }

    /// Take in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Host(context) => context.update(bytes),
            Self::Sha(context) => context.update(bytes),
            Self::Md5(context) => context.update(bytes),
        }
    }

    /// The checksum in lower-case hexadecimal digits.
    pub fn finish(self) -> String {
        match self {
            Self::Host(context) => hex(&context.finish()),
            Self::Sha(context) => hex(context.finish().as_ref()),
            Self::Md5(context) => hex(&context.finalize()),
        }
    }
}

/// How many hexadecimal digits a checksum has. Bad input for an algorithm that is not there.
pub fn digits(algorithm: &str) -> Result<usize> {
    Ok(2 * find(algorithm)?.own.map_or(16, aws::Algorithm::output_len))
}

fn find(algorithm: &str) -> Result<&'static Known> {
    KNOWN
        .iter()
        .find(|known| known.name == algorithm)
        .ok_or_else(|| {
            let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
            Problem::bad_input(
                format!("no checksum is called '{algorithm}'"),
                format!("known: {}", names.join(", ")),
            )
        })
}

/// sha256 of a short text, in hexadecimal.
pub fn sha256(text: &str) -> String {
    hex(aws::digest(&aws::SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        for (algorithm, of_abc) in [
            ("md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "sha256",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            for mut digest in [
                Digest::new(algorithm).unwrap(),
                Digest::own(find(algorithm).unwrap()),
            ] {
                digest.update(b"a");
                digest.update(b"bc");
                assert_eq!(digest.finish(), of_abc);
            }
        }
    }

    #[test]
    fn both_implementations_agree() {
        let bytes: Vec<u8> = (0..100_003_u32).map(|k| (k * 31) as u8).collect();
        for known in &KNOWN {
            let mut both = [Digest::new(known.name).unwrap(), Digest::own(known)];
            for digest in &mut both {
                bytes.chunks(977).for_each(|piece| digest.update(piece));
            }
            let [host, own] = both.map(Digest::finish);
            assert_eq!(host, own);
            assert_eq!(host.len(), digits(known.name).unwrap());
        }
    }

    #[test]
    fn an_unknown_one_is_refused() {
        assert!(Digest::new("crc32").is_err_and(|problem| problem.bad_input));
    }
}
