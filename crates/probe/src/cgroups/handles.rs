//! Paths of v2 groups by their ids, without a process that is in them. Needs CAP_DAC_READ_SEARCH.
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel's kind of a handle that is a kernfs node's number (FILEID_KERNFS, include/linux/exportfs.h).
const KERNFS: i32 = 0xfe;

/// The mounted v2 hierarchy.
#[derive(Debug)]
pub struct Handles {
    mount: OwnedFd,
    directory: PathBuf,
}

/// struct file_handle with a number in it (open_by_handle_at(2)).
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: [u8; 8],
}

impl Handles {
    /// Of a hierarchy that is mounted there.
    pub fn open(directory: &Path) -> Option<Self> {
        let name = CString::new(directory.as_os_str().as_bytes()).ok()?;
        // SAFETY: a string that ends with a zero.
        let fd = unsafe { libc::open(name.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
        // SAFETY: just opened, owned by nobody else.
        let mount = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
        Some(Self { mount, directory: directory.to_owned() })
    }

    /// The directory of a group, from where the hierarchy is mounted; None where it has been removed.
    pub fn below_mount(&self, id: u64) -> Option<PathBuf> {
        let mut handle = Handle { bytes: 8, kind: KERNFS, id: id.to_ne_bytes() };
        // SAFETY: a handle with room for as many bytes as it says.
        let fd = unsafe {
            let (mount, flags) = (self.mount.as_raw_fd(), libc::O_PATH | libc::O_CLOEXEC);
            libc::syscall(libc::SYS_open_by_handle_at, mount, &raw mut handle, flags)
        };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: just opened, owned by nobody else.
        let group = unsafe { OwnedFd::from_raw_fd(fd) };
        let path = fs::read_link(format!("/proc/self/fd/{}", group.as_raw_fd())).ok()?;
        path.strip_prefix(&self.directory).ok().map(Path::to_owned)
    }
}
