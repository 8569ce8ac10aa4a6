//! Compiles the BPF programs, with the feature `bpf`.

fn main() {
    #[cfg(feature = "bpf")]
    bpf();
}

#[cfg(feature = "bpf")]
fn bpf() {
    use std::path::PathBuf;

    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    // Debian keeps <asm/types.h> in a directory that clang does not search for the target bpf.
    println!("cargo:rerun-if-env-changed=CONTEND_BPF_INCLUDE");
    let include = std::env::var("CONTEND_BPF_INCLUDE").unwrap_or(format!("/usr/include/{arch}-linux-gnu"));
    let multiarch = format!("-I{include}");
    // Where the programs were compiled is nothing that they should say: BTF names their files.
    let apart = format!("-ffile-prefix-map={}=.", std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo:rerun-if-changed=bpf");
    const PROGRAMS: [&str; 3] = ["tasks", "blame", "sched"];
    for name in PROGRAMS {
        let source = format!("bpf/{name}.bpf.c");
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang_args(["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", &multiarch, &apart])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        // Unwinding with the message is how a build script fails.
        built.unwrap_or_else(|error| panic!("cannot compile {source}: {error:#}"));
    }
}
