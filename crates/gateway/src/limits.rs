//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to `wanted`; a limit that is higher already stays. Returns what is in force, and a warning for
/// the log where that is less than wanted, because only the superuser may raise the hard limit.
pub fn raise_open_files(wanted: u64) -> (u64, Option<String>) {
    let old = getrlimit(Resource::Nofile);
    // `None` is no limit.
    let (soft, hard) = (old.current.unwrap_or(u64::MAX), old.maximum.unwrap_or(u64::MAX));
    let target = target(soft, hard, wanted);
    let in_force = match target == soft {
        true => soft,
        false => match setrlimit(Resource::Nofile, Rlimit { current: Some(target), maximum: old.maximum }) {
            Ok(()) => target,
            Err(_) => soft,
        },
    };
    let warning = (in_force < wanted).then(|| {
        format!(
            "worker_rlimit_nofile is {wanted}, but this process may open {in_force} files; \
             raise the hard limit (ulimit -Hn, or LimitNOFILE= of systemd)"
        )
    });
    (in_force, warning)
}

fn target(soft: u64, hard: u64, wanted: u64) -> u64 {
    wanted.min(hard).max(soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        for (soft, hard, wanted, expected) in
            [(1024, 4096, 2048, 2048), (1024, 4096, 9999, 4096), (1024, 4096, 10, 1024), (5, u64::MAX, 9, 9)]
        {
            assert_eq!(target(soft, hard, wanted), expected);
        }
        let (now, warning) = raise_open_files(1);
        assert!(now >= 1 && warning.is_none());
    }
}
