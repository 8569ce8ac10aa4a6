//! Loading of the BPF programs. Only with the feature `bpf`.
use std::io::Read;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};

mod tasks_skel {
    #![allow(missing_docs, clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::expect_used)]
    include!(concat!(env!("OUT_DIR"), "/tasks.skel.rs"));
}

/// Load the smallest program and run it once: whether this kernel lets this process use BPF.
pub fn check() -> Result<(), String> {
    libbpf_rs::set_print(None); // its own words go to stderr; the error below says enough
    let tried = || -> Result<usize, Box<dyn std::error::Error>> {
        let mut object = MaybeUninit::uninit();
        let skel = tasks_skel::TasksSkelBuilder::default().open(&mut object)?.load()?;
        let link = skel.progs.tasks.attach()?;
        Ok(libbpf_rs::Iter::new(&link)?.read_to_end(&mut Vec::new())?)
    };
    match tried() {
        Ok(0) => Err("the task iterator yields nothing".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
