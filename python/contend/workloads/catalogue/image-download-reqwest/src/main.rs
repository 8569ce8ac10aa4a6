//! One download by reqwest, as its documentation says: `client URL OUT AUTHORITY SHA512`, the token on stdin.
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

use reqwest::blocking::Client;
use reqwest::Certificate;
use sha2::{Digest, Sha512};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, out, authority, wanted] = words.as_slice() else {
        eprintln!("usage: client URL OUT AUTHORITY SHA512 < TOKEN");
        return ExitCode::from(2);
    };
    match download(url, out, authority, wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("error: {error}");
            let mut cause = error.source();
            while let Some(deeper) = cause {
                eprint!(": {deeper}");
                cause = deeper.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn download(url: &str, out: &str, authority: &str, wanted: &str) -> Result<(), Box<dyn Error>> {
    let token = io::read_to_string(io::stdin())?;
    let mut client = Client::builder().timeout(None); // reqwest ends a whole download after 30 s otherwise
    if !authority.is_empty() {
        client = client.tls_certs_only(Certificate::from_pem_bundle(&std::fs::read(authority)?)?);
    }
    let request = client
        .build()?
        .get(url)
        .header("X-Auth-Token", token.trim());
    let mut response = request.send()?.error_for_status()?;
    let mut file = File::create(out)?;
    if wanted.is_empty() {
        response.copy_to(&mut file)?;
        return Ok(());
    }
    let mut verified = Verified {
        file,
        digest: Sha512::new(),
    };
    response.copy_to(&mut verified)?;
    let mut found = String::new();
    for byte in verified.digest.finalize() {
        write!(found, "{byte:02x}")?;
    }
    if found == wanted {
        Ok(())
    } else {
        Err("the checksum differs".into())
    }
}

/// Hashes what it writes.
struct Verified {
    file: File,
    digest: Sha512,
}

impl Write for Verified {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = self.file.write(piece)?;
        self.digest.update(&piece[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
