//! Reading and writing result files. A broken or a newer file is refused with its name and the place in it.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ResultFile, SCHEMA, validate};

/// The largest file that is read: a histogram takes a few kilobytes, so this is room for thousands of runs.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system refused.
    #[error("{}: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// More than [`MAX_FILE_BYTES`].
    #[error("{}: larger than {} MiB, so not a result file", file.display(), MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// Written by a newer version.
    #[error("{}: at schema: {found} is newer than {SCHEMA}, the newest that this version reads", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// The schema it names.
        found: u64,
    },
    /// Not a result file, or a broken one.
    #[error("{}: at {path}: {message}", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// The place in the JSON (`series[0].runs[2].duration_s`), `.` for the whole.
        path: String,
        /// What is wrong there.
        message: String,
    },
}

impl ResultFile {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<ResultFile, FileError> {
        let io = |error| FileError::Io { file: file.to_owned(), error };
        let mut bytes = Vec::new();
        fs::File::open(file).map_err(io)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(FileError::TooLarge { file: file.to_owned() });
        }
        ResultFile::parse(file, &bytes)
    }

    /// Reads a file's bytes; `file` is its name in errors.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<ResultFile, FileError> {
        let broken =
            |path: String, message: String| FileError::Broken { file: file.to_owned(), path, message };
        // The version goes first: of a newer form nothing else need make sense to us.
        let value: Value = serde_json::from_slice(bytes).map_err(|error| {
            broken(format!("line {} column {}", error.line(), error.column()), format!("not JSON: {error}"))
        })?;
        match value.get("schema").map(Value::as_u64) {
            Some(Some(schema)) if schema > u64::from(SCHEMA) => {
                return Err(FileError::Newer { file: file.to_owned(), found: schema });
            }
            Some(Some(schema)) if schema > 0 => {}
            Some(_) => return Err(broken("schema".to_owned(), "must be a whole number from 1".to_owned())),
            None => {
                return Err(broken(
                    ".".to_owned(),
                    "no `schema`: not a result file of `tidegate bench`".to_owned(),
                ));
            }
        }
        let result: ResultFile = serde_path_to_error::deserialize(value)
            .map_err(|error| broken(error.path().to_string(), error.inner().to_string()))?;
        validate::check(&result).map_err(|(path, message)| broken(path, message))?;
        Ok(result)
    }

    /// The file's text: JSON, indented, ending in a line feed. The first series' median rate and latency stand at the top as
    /// `requests_per_second` and `latency_ms`, for scripts; they are not read back.
    pub fn to_json(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_else(|error| {
            // Only a map with keys that are no strings could fail, and no type of the file has one.
            json!({ "error": error.to_string() })
        });
        if let (Some(object), Some(first)) = (value.as_object_mut(), self.series.first()) {
            if let Some(rate) = first.requests_per_second() {
                object.insert("requests_per_second".to_owned(), json!(rate));
            }
            if let Some(latency) = first.latency() {
                object.insert("latency_ms".to_owned(), json!(latency.latency()));
            } else if let Some(mean) =
                first.published.as_ref().and_then(|published| published.mean_latency_ms)
            {
                object.insert("latency_ms".to_owned(), json!({ "mean": mean }));
            }
        }
        format!("{value:#}\n")
    }

    /// Writes the file, replacing one of that name.
    pub fn write(&self, file: &Path) -> Result<(), FileError> {
        fs::write(file, self.to_json()).map_err(|error| FileError::Io { file: file.to_owned(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Client, Environment, Errors, Histogram, Run, Series, Settings, Target};
    use super::*;

    fn sample() -> ResultFile {
        let mut histogram = Histogram::new();
        for time in [900_000, 1_000_000, 1_100_000] {
            histogram.record_ns(time);
        }
        let run = Run {
            order: 0,
            started: None,
            settings: Settings { threads: 1, connections: 16, ..Settings::default() },
            duration_s: 10.0,
            requests: 125_000,
            requests_per_second: 12_500.0,
            errors: Errors::default(),
            statuses: [(200, 125_000)].into(),
            bytes_received: 1,
            bytes_sent: 1,
            schedule: None,
            client: Client::default(),
            service_time: Some(histogram),
            response_time: None,
        };
        let mut file = ResultFile::measured("2026-11-20T10:00:00Z", Environment::default());
        file.series.push(Series {
            name: "tidegate".to_owned(),
            scenario: Some("single-upstream".to_owned()),
            target: Target { url: "http://127.0.0.1:9080/hello".to_owned(), ..Target::default() },
            runs: vec![run],
            ..Series::default()
        });
        file
    }

    /// Reads the sample after `edit` changed its JSON; the error as a user sees it.
    fn refusal(edit: impl FnOnce(&mut Value)) -> String {
        let mut value = serde_json::to_value(sample()).unwrap();
        edit(&mut value);
        ResultFile::parse(Path::new("a.json"), value.to_string().as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_file_written_is_read_back_and_tells_scripts_the_rate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        sample().write(&path).unwrap();
        assert_eq!(ResultFile::read(&path).unwrap(), sample());
        let value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(value["requests_per_second"], 12_500.0);
        assert!((value["latency_ms"]["p50"].as_f64().unwrap() - 1.0).abs() < 0.001);
    }

    #[test]
    fn unknown_fields_of_the_same_schema_are_ignored() {
        let mut value = serde_json::to_value(sample()).unwrap();
        value["later"] = json!(1);
        value["series"][0]["runs"][0]["later"] = json!({});
        assert_eq!(ResultFile::parse(Path::new("a"), value.to_string().as_bytes()).unwrap(), sample());
    }

    #[test]
    fn refusals_name_file_and_place() {
        let runs = |value: &mut Value, name: &str, to: Value| value["series"][0]["runs"][0][name] = to;
        for (said, expected) in [
            (refusal(|v| v["schema"] = json!(2)), "a.json: at schema: 2 is newer than 1"),
            (refusal(|v| v["schema"] = json!("1")), "a.json: at schema: must be a whole number from 1"),
            (refusal(|v| v["schema"] = json!(0)), "a.json: at schema: must be"),
            (refusal(|v| *v = json!([])), "a.json: at .: no `schema`"),
            (refusal(|v| v["series"] = json!([])), "a.json: at series: "),
            (refusal(|v| v["series"][0]["name"] = json!("")), "a.json: at series[0].name: "),
            (refusal(|v| runs(v, "requests", json!(-1))), "a.json: at series[0].runs[0].requests: "),
            (refusal(|v| runs(v, "duration_s", json!(0))), "a.json: at series[0].runs[0].duration_s: "),
            (
                refusal(|v| runs(v, "requests_per_second", json!(-3.5))),
                "series[0].runs[0].requests_per_second: ",
            ),
            (
                refusal(|v| runs(v, "service_time", json!({"hdr": "?"}))),
                "series[0].runs[0].service_time: `hdr` is not",
            ),
            (refusal(|v| v["provenance"]["kind"] = json!("dreamt")), "a.json: at provenance"),
            (refusal(|v| v["series"][0]["published"] = json!({})), "a.json: at series[0].published: "),
        ] {
            assert!(said.contains(expected), "{said}\nshould contain: {expected}");
        }
    }

    #[test]
    fn what_is_not_json_names_line_and_column() {
        let error = ResultFile::parse(Path::new("a.json"), b"{\n  \"schema\": }").unwrap_err().to_string();
        assert!(error.starts_with("a.json: at line 2 column 13: not JSON"), "{error}");
        assert!(
            ResultFile::read(Path::new("/nonexistent/a.json")).unwrap_err().to_string().contains("a.json")
        );
    }

    #[test]
    fn no_cut_makes_it_panic() {
        let text = sample().to_json();
        for end in (0..text.len() - 2).step_by(7) {
            assert!(ResultFile::parse(Path::new("a"), &text.as_bytes()[..end]).is_err());
        }
    }
}
