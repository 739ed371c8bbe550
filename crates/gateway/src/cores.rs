//! How many cores this process may use.
//!
//! `std::thread::available_parallelism` knows the cgroup too, but rounds a quota of 1.5 cores down; a worker per started
//! core uses what is granted.

use std::fs;
use std::path::{Path, PathBuf};

/// The cores that affinity and cgroup grant, at least 1.
pub fn granted() -> usize {
    let by_affinity = rustix::thread::sched_getaffinity(None).map_or(usize::MAX, |set| set.count() as usize);
    let own_cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let by_quota = quota(Path::new("/sys/fs/cgroup"), &own_cgroup).unwrap_or(usize::MAX);
    match by_affinity.min(by_quota) {
        usize::MAX => std::thread::available_parallelism().map_or(1, usize::from),
        cores => cores.max(1),
    }
}

/// The numbers of the cores that affinity grants, in ascending order.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// The smallest quota on the way from this process's cgroup to the root, in whole cores. `root` is where cgroups are
/// mounted, `own_cgroup` the text of `/proc/self/cgroup`.
fn quota(root: &Path, own_cgroup: &str) -> Option<usize> {
    own_cgroup
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            if controllers.is_empty() {
                return smallest(root, path, v2_quota);
            }
            if !controllers.split(',').any(|controller| controller == "cpu") {
                return None;
            }
            // Distributions mount it under either name.
            let mount =
                [controllers, "cpu"].map(|name| root.join(name)).into_iter().find(|mount| mount.is_dir())?;
            smallest(&mount, path, v1_quota)
        })
        .min()
}

/// The path may be that of the host, of which a container sees only the root: missing levels are passed over.
fn smallest(mount: &Path, path: &str, read: fn(&Path) -> Option<usize>) -> Option<usize> {
    let below: PathBuf = path.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    below.ancestors().filter_map(|level| read(&mount.join(level))).min()
}

/// `cpu.max`: quota and period in microseconds, or `max`.
fn v2_quota(level: &Path) -> Option<usize> {
    let text = fs::read_to_string(level.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    cores(quota, period)
}

/// A quota of -1 means none.
fn v1_quota(level: &Path) -> Option<usize> {
    let quota = fs::read_to_string(level.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(level.join("cpu.cfs_period_us")).ok()?;
    cores(quota.trim(), period.trim())
}

fn cores(quota: &str, period: &str) -> Option<usize> {
    let quota: u64 = quota.parse().ok()?;
    let period: u64 = period.parse().ok().filter(|period| *period > 0)?;
    usize::try_from(quota.div_ceil(period)).ok().map(|cores| cores.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the files below a fresh directory and asks for the quota there.
    fn quota_of(files: &[(&str, &str)], own_cgroup: &str) -> Option<usize> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        quota(root.path(), own_cgroup)
    }

    #[test]
    fn version_2() {
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, Option<usize>);
        let cases: [Case<'_>; 7] = [
            (&[("cpu.max", "200000 100000\n")], "0::/\n", Some(2)),
            (&[("cpu.max", "150000 100000\n")], "0::/\n", Some(2)),
            (&[("cpu.max", "1000 100000\n")], "0::/\n", Some(1)),
            (&[("cpu.max", "max 100000\n")], "0::/\n", None),
            (&[("a/cpu.max", "300000 100000\n"), ("a/b/cpu.max", "max 100000\n")], "0::/a/b\n", Some(3)),
            (&[("cpu.max", "400000 100000\n")], "0::/not/mounted/here\n", Some(4)),
            (&[("cpu.max", "rubbish")], "0::/../x\n", None),
        ];
        for (files, own, expected) in cases {
            assert_eq!(quota_of(files, own), expected, "{files:?} {own}");
        }
    }

    #[test]
    fn version_1() {
        let files =
            [("cpu,cpuacct/x/cpu.cfs_quota_us", "250000\n"), ("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n")];
        assert_eq!(quota_of(&files, "5:memory:/x\n4:cpu,cpuacct:/x\n"), Some(3));
        let files = [("cpu/cpu.cfs_quota_us", "-1\n"), ("cpu/cpu.cfs_period_us", "100000\n")];
        assert_eq!(quota_of(&files, "4:cpu,cpuacct:/\n"), None);
        assert_eq!(quota_of(&[], "rubbish\n\n:\n"), None);
    }

    #[test]
    fn there_is_always_one() {
        assert!(granted() >= 1);
    }
}
