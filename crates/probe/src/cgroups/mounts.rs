//! Where the hierarchies of control groups are mounted, and which groups a process is in.
use std::path::{Path, PathBuf};

use contend_core::procfile::ProcFile;

use super::handles::Handles;

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    directory: PathBuf,
    /// The group that is seen there: not the root in a container that sees the host's groups.
    root: String,
}

/// The hierarchies there are.
#[derive(Debug, Default)]
pub struct Mounts {
    handles: Option<Handles>,
    v2: Option<Mount>,
    cpu: Option<Mount>,
    memory: Option<Mount>,
    io: Option<Mount>,
}

/// The groups of one process, by their paths in their hierarchies.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Paths {
    v2: Option<String>,
    cpu: Option<String>,
    memory: Option<String>,
    io: Option<String>,
}

impl Mounts {
    /// As this process sees them; none where /proc cannot be read.
    pub fn read() -> Self {
        let mut buffer = Vec::new();
        let text = ProcFile::open("/proc/self/mountinfo")
            .and_then(|file| file.read(&mut buffer).map(<[u8]>::to_vec));
        let mut found = Self::parse(&String::from_utf8_lossy(&text.unwrap_or_default()));
        found.handles = found.v2.as_ref().and_then(|mount| Handles::open(&mount.directory));
        found
    }

    /// The path of the v2 group of an id, though no process may be in it; None where it has been removed.
    pub fn v2_path(&self, id: u64) -> Option<String> {
        let inside = self.handles.as_ref()?.below_mount(id)?;
        let root = self.v2.as_ref()?.root.trim_end_matches('/');
        Some(match inside.to_string_lossy() {
            inside if inside.is_empty() && root.is_empty() => "/".to_owned(),
            inside if inside.is_empty() => root.to_owned(),
            inside => format!("{root}/{inside}"),
        })
    }

    /// The v2 group of an id, where it is not one that v1 may tell apart further.
    pub fn by_id(&self, id: u64) -> Option<Paths> {
        let v2 = self.v2_path(id)?;
        (v2 != "/" || !self.has_v1()).then(|| Paths { v2: Some(v2), ..Paths::default() })
    }

    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let mut fields = left.split(' ').skip(3);
            let (Some(root), Some(directory)) = (fields.next(), fields.next()) else { continue };
            let mount = Mount { directory: PathBuf::from(directory), root: root.to_owned() };
            let mut fields = right.split(' ');
            let kind = fields.next().unwrap_or_default();
            let controllers = fields.nth(1).unwrap_or_default();
            let has = |controller| controllers.split(',').any(|word| word == controller);
            if kind == "cgroup2" {
                found.v2.get_or_insert(mount);
            } else if kind == "cgroup" && has("cpu") {
                found.cpu.get_or_insert(mount);
            } else if kind == "cgroup" && has("memory") {
                found.memory.get_or_insert(mount);
            } else if kind == "cgroup" && has("blkio") {
                found.io.get_or_insert(mount);
            }
        }
        found
    }

    /// Whether a process may be in a group that only its v1 path tells apart.
    pub fn has_v1(&self) -> bool {
        self.cpu.is_some()
    }

    /// Where each of them is.
    pub fn mounted(&self) -> impl Iterator<Item = &Path> {
        [&self.v2, &self.cpu, &self.memory, &self.io]
            .into_iter()
            .flatten()
            .map(|mount| mount.directory.as_path())
    }

    /// The directories of a process's groups: v2, v1 cpu, v1 memory and v1 blkio. None where it cannot be seen.
    pub fn directories(&self, paths: &Paths) -> [Option<PathBuf>; 4] {
        // The root of v2 says nothing of a process that only v1 tells apart from others.
        let v2 = paths.v2.as_deref().filter(|path| *path == paths.name());
        [
            below(&self.v2, v2),
            below(&self.cpu, paths.cpu.as_deref()),
            below(&self.memory, paths.memory.as_deref()),
            // The requests of a process in another group of this controller, as the root, are not this group's.
            below(&self.io, paths.io.as_deref().filter(|path| *path == paths.name())),
        ]
    }
}

fn below(mount: &Option<Mount>, path: Option<&str>) -> Option<PathBuf> {
    let (mount, path) = (mount.as_ref()?, path?);
    let inside = path.strip_prefix(mount.root.trim_end_matches('/'))?;
    Some(mount.directory.join(inside.trim_start_matches('/')))
}

impl Paths {
    /// From the text of /proc/PID/cgroup.
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut paths = Self::default();
        for line in text.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            // Of a group that was removed while the process is still in it.
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            let has = |controller| controllers.split(',').any(|word| word == controller);
            if controllers.is_empty() {
                paths.v2 = Some(path.to_owned());
            }
            if has("cpu") {
                paths.cpu = Some(path.to_owned());
            }
            if has("memory") {
                paths.memory = Some(path.to_owned());
            }
            if has("blkio") {
                paths.io = Some(path.to_owned());
            }
        }
        paths
    }

    /// What to call it: the v2 path unless that is the root and the v1 path of the cpu controller is not.
    pub fn name(&self) -> &str {
        let v2 = self.v2.as_deref().filter(|path| *path != "/");
        v2.or(self.cpu.as_deref()).unwrap_or("/")
    }

    /// Whether the v2 path is what it is called.
    pub fn is_v2(&self) -> bool {
        self.v2.as_deref() == Some(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &[u8]) -> String {
        Paths::parse(text).name().to_owned()
    }

    #[test]
    fn the_v2_path_unless_it_is_the_root() {
        assert_eq!(name(b"0::/system.slice/a.service\n"), "/system.slice/a.service");
        assert_eq!(name(b"3:cpuset:/x\n2:cpu,cpuacct:/docker/12\n0::/\n"), "/docker/12");
        assert_eq!(name(b"2:cpu,cpuacct:/docker/12\n0::/own\n"), "/own");
        assert_eq!(name(b"0::/a:b (deleted)\n"), "/a:b");
        assert_eq!((name(b"0::/\n"), name(b"")), ("/".to_owned(), "/".to_owned()));
    }

    #[test]
    fn directories_of_a_hybrid_host() {
        let mounts = Mounts::parse(
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
             32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
             33 31 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
             34 31 0:31 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        let found = |text: &[u8]| {
            mounts
                .directories(&Paths::parse(text))
                .map(|path| path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default())
        };
        assert!(mounts.has_v1());
        let both = found(b"7:blkio:/\n4:memory:/m\n2:cpu,cpuacct:/c\n0::/u\n");
        assert_eq!(both, ["/sys/fs/cgroup/unified/u", "/sys/fs/cgroup/cpu/c", "/sys/fs/cgroup/memory/m", ""]);
        let old = found(b"7:blkio:/c\n4:memory:/m\n2:cpu,cpuacct:/c\n0::/\n");
        assert_eq!(old, ["", "/sys/fs/cgroup/cpu/c", "/sys/fs/cgroup/memory/m", "/sys/fs/cgroup/blkio/c"]);
    }

    #[test]
    fn a_container_that_sees_a_part_of_the_hosts_tree() {
        let mounts = Mounts::parse("31 23 0:28 /docker/12 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        let [v2, ..] = mounts.directories(&Paths::parse(b"0::/docker/12/a\n"));
        assert_eq!(v2, Some(PathBuf::from("/sys/fs/cgroup/a")));
        assert_eq!(mounts.directories(&Paths::parse(b"0::/other\n"))[0], None);
    }
}
