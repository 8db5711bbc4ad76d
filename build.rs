//! Builds the C shim (`c_shim/*.c`) into the static library, with the flags of the httpd that
//! `apxs` belongs to (`APXS` names another one). Without apxs there is no shim, but everything
//! else builds and its tests run. With the feature `bindings`: writes `src/ffi/contract.rs` from
//! `c_shim/nap.h`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=c_shim");
    println!("cargo:rerun-if-env-changed=APXS");
    #[cfg(feature = "bindings")]
    bindings();
    let named = std::env::var("APXS").ok();
    let candidates: Vec<&str> = named
        .as_deref()
        .map_or(vec!["apxs", "apxs2", "/usr/sbin/apxs"], |apxs| vec![apxs]);
    match candidates.iter().find_map(|apxs| Apxs::at(apxs)) {
        Some(apxs) => compile(&apxs),
        None => println!(
            "cargo:warning=no apxs ({}): built without the httpd shim; on Debian it is in \
             apache2-dev",
            candidates.join(", ")
        ),
    }
}

/// httpd's own record of its build settings.
struct Apxs {
    path: String,
    include: String,
}

impl Apxs {
    fn at(path: &str) -> Option<Apxs> {
        let mut apxs = Apxs {
            path: path.into(),
            include: String::new(),
        };
        apxs.include = apxs.ask("INCLUDEDIR")?;
        Path::new(&apxs.include)
            .join("httpd.h")
            .exists()
            .then_some(apxs)
    }

    fn ask(&self, variable: &str) -> Option<String> {
        let output = Command::new(&self.path)
            .args(["-q", variable])
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    }
}

fn compile(apxs: &Apxs) {
    let mut build = cc::Build::new();
    for entry in std::fs::read_dir("c_shim")
        .expect("c_shim is beside build.rs")
        .flatten()
    {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "c") {
            build.file(path);
        }
    }
    for variable in ["CFLAGS", "EXTRA_CPPFLAGS", "EXTRA_CFLAGS"] {
        for flag in apxs.ask(variable).unwrap_or_default().split_whitespace() {
            build.flag(flag);
        }
    }
    for variable in ["INCLUDEDIR", "APR_INCLUDEDIR", "APU_INCLUDEDIR"] {
        if let Some(dir) = apxs.ask(variable) {
            build.flag("-isystem").flag(dir);
        }
    }
    // not -fvisibility=hidden: httpd's own macros do not mark nap_module for export; the link step
    // decides what the .so exports. Hooks have parameters that not every hook needs.
    build
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .flag("-Wno-unused-parameter")
        // gcc would clear an access and a request byte by byte, or nearly so
        .flag_if_supported("-mmemset-strategy=unrolled_loop:64:noalign,libcall:-1:noalign")
        // the .so is linked with -z now: no symbol is looked up at a first call
        .flag_if_supported("-fno-plt")
        .force_frame_pointer(false)
        .compile("nap_shim");
}

/// The contract in Rust. It is committed, so that users need no libclang.
#[cfg(feature = "bindings")]
fn bindings() {
    let contract = bindgen::Builder::default()
        .header("c_shim/nap.h")
        .allowlist_item("(nap|NAP)_.*")
        .generate_comments(false)
        .derive_default(true)
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate()
        .expect("nap.h is plain C")
        .to_string();
    // Not rewritten if unchanged, so that it does not look newer than what was built from it.
    let path = "src/ffi/contract.rs";
    if std::fs::read_to_string(path).ok().as_deref() != Some(&contract) {
        std::fs::write(path, contract).expect("src/ffi can be written");
    }
}
