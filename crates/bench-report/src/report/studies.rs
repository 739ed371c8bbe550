//! The published figures that ship with the tool, for a report without a file at hand and for comparing with one's own.

use std::path::Path;

use bench::result::{FileError, ResultFile};

/// A publication whose figures ship with the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Study {
    /// Apache APISIX on Google Cloud T2D and T2A
    Google,
    /// Apache APISIX on Azure Ddsv5 and Dpdsv5
    Azure,
    /// nginx with static files over HTTPS on Google Cloud N2, N2D and T2A
    Https,
}

impl Study {
    /// The study's result files with their names, the study's own baseline first.
    pub(super) fn files(self) -> Result<Vec<(String, ResultFile)>, FileError> {
        let parse = |(name, text): &(&str, &str)| {
            let name = format!("published/{name}.json");
            ResultFile::parse(Path::new(&name), text.as_bytes()).map(|file| (name, file))
        };
        self.texts().iter().map(parse).collect()
    }

    fn texts(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Study::Google => &[
                ("apisix-google-t2d", include_str!("../../data/published/apisix-google-t2d.json")),
                ("apisix-google-t2a", include_str!("../../data/published/apisix-google-t2a.json")),
            ],
            Study::Azure => &[
                ("apisix-azure-ddsv5", include_str!("../../data/published/apisix-azure-ddsv5.json")),
                ("apisix-azure-dpdsv5", include_str!("../../data/published/apisix-azure-dpdsv5.json")),
            ],
            Study::Https => &[
                ("nginx-google-n2", include_str!("../../data/published/nginx-google-n2.json")),
                ("nginx-google-n2d", include_str!("../../data/published/nginx-google-n2d.json")),
                ("nginx-google-t2a", include_str!("../../data/published/nginx-google-t2a.json")),
            ],
        }
    }
}
