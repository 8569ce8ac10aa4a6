//! Hashes of the host's OpenSSL, loaded where it is there: of all implementations its sha512 and md5 use the fewest
//! cycles a byte (docs/adr/0024). Loaded and not linked, so that a build needs no headers and a host may lack it.
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// The interface is the same since OpenSSL 1.1.0.
const NAMES: [&CStr; 2] = [c"libcrypto.so.3", c"libcrypto.so.1.1"];
/// EVP_MAX_MD_SIZE.
const MOST: usize = 64;

struct Functions {
    new: unsafe extern "C" fn() -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    by_name: unsafe extern "C" fn(*const c_char) -> *const c_void,
    init: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void) -> c_int,
    update: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    finish: unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_uint) -> c_int,
}

fn load() -> Option<Functions> {
    // SAFETY: the names are C strings; the handle is kept open for the process's life.
    let library = NAMES
        .iter()
        .map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) })
        .find(|handle| !handle.is_null())?;
    let find = |name: &CStr| {
        // SAFETY: an open handle and a C string.
        let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    };
    let new = find(c"EVP_MD_CTX_new")?;
    let free = find(c"EVP_MD_CTX_free")?;
    let by_name = find(c"EVP_get_digestbyname")?;
    let init = find(c"EVP_DigestInit_ex")?;
    let update = find(c"EVP_DigestUpdate")?;
    let finish = find(c"EVP_DigestFinal_ex")?;
    // SAFETY: the functions of these names have these types, by OpenSSL's evp.h.
    unsafe {
        Some(Functions {
            new: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(new),
            free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(free),
            by_name: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*const c_char) -> *const c_void,
            >(by_name),
            init: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void) -> c_int,
            >(init),
            update: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
            >(update),
            finish: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_uint) -> c_int,
            >(finish),
        })
    }
}

fn functions() -> Option<&'static Functions> {
    static LOADED: OnceLock<Option<Functions>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref()
}

/// A hash in the making.
pub struct Context {
    functions: &'static Functions,
    context: *mut c_void,
}

impl Context {
    /// None where there is no OpenSSL, or it has no such algorithm (md5 on a host in FIPS mode).
    pub fn new(algorithm: &CStr) -> Option<Self> {
        let functions = functions()?;
        // SAFETY: a C string; the answer is static or null.
        let kind = unsafe { (functions.by_name)(algorithm.as_ptr()) };
        if kind.is_null() {
            return None;
        }
        // SAFETY: no arguments; null is checked.
        let context = unsafe { (functions.new)() };
        if context.is_null() {
            return None;
        }
        let made = Self { functions, context };
        // SAFETY: a live context and a digest; a null engine is the default one.
        (unsafe { (functions.init)(context, kind, null_mut()) } == 1).then_some(made)
    }

    /// Take in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        // SAFETY: a live, initialised context, and bytes that are valid for their length. It fails only for a context
        // that is not initialised.
        unsafe { (self.functions.update)(self.context, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// The hash.
    pub fn finish(self) -> Vec<u8> {
        let mut out = vec![0; MOST];
        let mut length: c_uint = 0;
        // SAFETY: no digest is longer than EVP_MAX_MD_SIZE.
        unsafe { (self.functions.finish)(self.context, out.as_mut_ptr(), &raw mut length) };
        out.truncate(length as usize);
        out
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { (self.functions.free)(self.context) };
    }
}
