//! The subcommands.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::CommandFactory;
use observe::ErrorLog;
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::{Cli, Command, CommonArgs, ExplainArgs, ReloadArgs, StartArgs, TestArgs};
use crate::launch::{self, Launch, Mode};
use crate::outcome::{self, Outcome};
use crate::output::{checked, complain, say, show};
use crate::pidfile::{self, PidFile};
use crate::reload::Started;
use crate::serve::args::ServeArgs;
use crate::{
    admin_key, boot, daemon, data_dir, declarative, explain, import, limits, lint, preflight, quickstart,
};
use config::{Reach, Settings};

/// How long `stop` waits for the process to be gone.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// How often it looks.
const STOP_POLL: Duration = Duration::from_millis(10);

/// Does what the command line says. The exit code is 0 for success and 1 for failure; a command line that can't be
/// understood has ended with 2 before.
pub fn execute(cli: &Cli) -> ExitCode {
    let result = match &cli.command {
        Command::Start(args) => start(Mode::Normal, args),
        Command::Quickstart(args) => start(Mode::Quickstart, args),
        Command::Stop(args) => stop(args),
        Command::Quit(args) => quit(args),
        Command::Reload(args) => reload(args),
        Command::Test(args) => test(args),
        Command::Explain(args) => explain_request(args),
        Command::Serve(args) => serve(args),
        Command::Import { from } => import::execute(from),
        Command::Lint(args) => lint::run(args),
        Command::Config(command) => declarative::run(command),
        #[cfg(feature = "bench")]
        Command::Bench(args) => return crate::bench::execute(args),
        Command::Completions { shell } => completions(*shell),
        Command::Version(_) => say(format_args!("tidegate {}", env!("CARGO_PKG_VERSION"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("tidegate: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start(mode: Mode, args: &StartArgs) -> anyhow::Result<()> {
    begin(Launch::new(mode, args)?, args.daemon)
}

/// Serves what the command line says. What the run leaves on the disk goes with it, unless it is told where to.
fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let temporary = tempfile::Builder::new().prefix("tidegate-serve-").tempdir();
    let temporary = temporary.context("no temporary folder can be had")?;
    let home = match &args.data_dir {
        Some(folder) => std::path::absolute(folder)?,
        None => temporary.path().to_owned(),
    };
    let launch = Launch::serve(Arc::new(args.clone()), &home)?;
    launch.given.iter().flat_map(|given| &given.refused).for_each(complain);
    begin(launch, false)
}

fn begin(launch: Launch, daemon: bool) -> anyhow::Result<()> {
    // Before anything is opened: a refused configuration leaves no trace.
    let mut settings = checked(launch.settings(), launch.detached)?;
    if daemon {
        let pid = daemon::start()?;
        return say(format_args!("tidegate runs as process {pid}"));
    }
    if launch.detached {
        daemon::detach()?;
    }
    data_dir::prepare(&launch.data_dir)?;
    let pid_file = PidFile::claim(&launch.data_dir).map_err(|error| {
        anyhow!("{error} ({}); stop it, or choose another --data-dir", launch.data_dir.display())
    })?;
    pidfile::record_config(&launch.data_dir, launch.config.as_deref())
        .with_context(|| format!("the data directory {} can't be written", launch.data_dir.display()))?;
    let error_log = open_error_log(&settings, &launch)?;
    if let Some(pid) = pid_file.left_over {
        tracing::warn!(
            "process {pid} did not end in order; starting with what it left in the data directory"
        );
    }
    if let (_, Some(warning)) = limits::raise_open_files(settings.process.open_files) {
        tracing::warn!("{warning}");
    }
    let read = settings.clone();
    let key = admin_key::ensure(&mut settings, &launch.data_dir)?;
    let text = match (&launch.given, launch.mode) {
        (Some(given), _) => given.greeting(&settings),
        (None, Mode::Normal) => String::new(),
        (None, Mode::Quickstart) => quickstart::greeting(&settings, key.as_ref()),
    };
    let daemon_in = launch.detached.then(|| launch.data_dir.clone());
    let logs_to_stderr = logs_to_stderr(&settings, &launch);
    let announcement = daemon::Announcement::new(daemon_in, text);
    let announcement = match launch.mode {
        Mode::Normal => announcement.show(key.as_ref()),
        Mode::Quickstart => announcement.shows(key.as_ref()),
    };
    let started = Started { launch, read, error_log: error_log.clone() };
    let result = boot::run(settings, started, announcement);
    // Elsewhere the error log is stderr too, where the error is printed at the end.
    if let Err(error) = &result
        && !logs_to_stderr
    {
        tracing::error!("{error:#}");
    }
    error_log.flush();
    result
}

/// Opens the error log and sends everything that is traced there.
fn open_error_log(settings: &Settings, launch: &Launch) -> anyhow::Result<ErrorLog> {
    let path = launch.resolve(&settings.logs.error_log);
    let (log, subscriber) = ErrorLog::open(&path, settings.logs.level, logs_to_stderr(settings, launch))
        .with_context(|| format!("the log {} can't be written", path.display()))?;
    tracing::subscriber::set_global_default(subscriber).context("the error log was opened twice")?;
    Ok(log)
}

/// In the foreground stderr gets the log's lines as well, unless the configuration names an error log.
fn logs_to_stderr(settings: &Settings, launch: &Launch) -> bool {
    !launch.detached && !settings.logs.error_log_named
}

fn stop(args: &CommonArgs) -> anyhow::Result<()> {
    let data_dir = launch::data_dir(args)?;
    let pid = running(&data_dir)?;
    send(pid, Signal::TERM)?;
    // The second request to end is the one that ends at once. The process may be gone by now, which is as well.
    let _ = send(pid, Signal::INT);
    let begin = Instant::now();
    while pidfile::running(&data_dir)?.is_some() {
        if begin.elapsed() > STOP_WAIT {
            bail!("process {pid} still runs after {} s", STOP_WAIT.as_secs());
        }
        std::thread::sleep(STOP_POLL);
    }
    say(format_args!("process {pid} has ended"))
}

fn quit(args: &CommonArgs) -> anyhow::Result<()> {
    let pid = running(&launch::data_dir(args)?)?;
    send(pid, Signal::QUIT)?;
    say(format_args!("process {pid} ends when its requests are answered"))
}

/// The configuration is checked here, where the operator sees what is wrong with it, and read again by the process, which
/// tells what came of it.
fn reload(args: &ReloadArgs) -> anyhow::Result<()> {
    let data_dir = launch::data_dir(&args.common)?;
    let pid = running(&data_dir)?;
    match &args.nginx_conf {
        Some(file) => import::translate(file).map(drop)?,
        None => {
            let file = config_of(pid, &data_dir, &args.common)?;
            checked(launch::load(file.as_deref(), Reach::Anyone), false)?;
        }
    }
    outcome::forget(&data_dir);
    send(pid, Signal::HUP)?;
    let runs = || pidfile::running(&data_dir).is_ok_and(|running| running == Some(pid));
    match outcome::wait(&data_dir, runs) {
        Some(Outcome { applied: true, words }) => {
            if !words.is_empty() {
                complain(words);
            }
            say(format_args!("process {pid} has applied its configuration"))
        }
        Some(Outcome { words, .. }) => {
            bail!("process {pid} refuses its configuration, nothing changes: {words}")
        }
        None if runs() => bail!("process {pid} has not applied its configuration yet; its error log tells"),
        None => bail!("process {pid} has ended"),
    }
}

/// The configuration file that the running process reads. Another one that the command line names is refused: the process
/// would read its own.
fn config_of(pid: u32, data_dir: &Path, args: &CommonArgs) -> anyhow::Result<Option<PathBuf>> {
    let Some(own) = pidfile::recorded_config(data_dir) else { return Ok(launch::config_file(args)) };
    if let Some(named) = &args.config
        && !own.as_ref().is_some_and(|own| same_file(own, named))
    {
        let reads = own.map_or("no configuration file".to_owned(), |own| own.display().to_string());
        let named = named.display();
        bail!(
            "process {pid} reads {reads}, not {named}: reload it without -c, or restart it with -c {named}"
        );
    }
    Ok(own)
}

fn same_file(one: &Path, other: &Path) -> bool {
    let resolve = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    resolve(one) == resolve(other)
}

/// Checks everything that a start would: the configuration file, the files that it names, and the resources where they
/// are in a file too.
fn test(args: &TestArgs) -> anyhow::Result<()> {
    let file = launch::config_file(&args.common);
    let (mut report, settings) = match launch::load(file.as_deref(), Reach::Anyone) {
        Ok(loaded) => (loaded.warnings, Some(loaded.settings)),
        Err(report) => (report, None),
    };
    let refused = report.errors() > 0;
    if let Some(settings) = settings {
        report.diagnostics.extend(preflight::check(&settings, &Launch::of_test(&args.common)?));
    }
    if args.json {
        say(report.to_json())?;
    } else {
        show(&report);
    }
    match (refused, report.errors()) {
        (true, _) => bail!("the configuration is refused: {}", report.summary()),
        (false, 1..) => bail!("the configuration is valid, but a start would fail: {}", report.summary()),
        _ if args.json => Ok(()),
        _ => match file {
            Some(file) => say(format_args!("configuration file {} is valid", file.display())),
            None => say(format_args!("there is no configuration file; the defaults are valid")),
        },
    }
}

fn explain_request(args: &ExplainArgs) -> anyhow::Result<()> {
    let address = match args.control {
        Some(address) => address,
        None => {
            let settings =
                checked(launch::load(launch::config_file(&args.common).as_deref(), Reach::Anyone), true)?;
            settings.control.context("the control API is switched off (apisix.enable_control)")?
        }
    };
    say(explain::run(args, address)?)
}

fn running(data_dir: &Path) -> anyhow::Result<u32> {
    pidfile::running(data_dir)
        .with_context(|| format!("the pid file in {} can't be read", data_dir.display()))?
        .ok_or_else(|| anyhow!("no gateway runs with the data directory {}", data_dir.display()))
}

fn send(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let process =
        i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| anyhow!("{pid} is no process id"))?;
    kill_process(process, signal).with_context(|| format!("process {pid} can't be signalled"))
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut script);
    io::stdout().write_all(&script).context("stdout is closed")
}
