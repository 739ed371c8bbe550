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

/// Most connections of one server of the control plane: a 32nd of the files that this process may open, so that the four
/// servers leave seven eighths of them to the data plane, and [`admin::CONNECTIONS_MAX`] where there are plenty.
pub fn control_connections() -> usize {
    share(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

fn share(open_files: u64) -> usize {
    usize::try_from(open_files / 32).unwrap_or(usize::MAX).clamp(4, admin::CONNECTIONS_MAX)
}

fn target(soft: u64, hard: u64, wanted: u64) -> u64 {
    wanted.min(hard).max(soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_plane_has_an_eighth_of_the_files() {
        for (open_files, most) in [(20_480, 640), (1024, 32), (65_536, 1024), (u64::MAX, 1024), (64, 4)] {
            assert_eq!(share(open_files), most, "{open_files}");
        }
    }

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
