//! A scrape of `/metrics`, read.

use std::collections::{BTreeMap, BTreeSet};

use crate::programs::{Program, Response, Server};

/// The example, and its two listeners.
pub(crate) struct App {
    pub(crate) program: Program,
    pub(crate) server: Server,
    metrics: Server,
}

impl App {
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let any = [
            ("ADDR", "127.0.0.1:0"),
            ("METRICS_ADDR", "127.0.0.1:0"),
            // No machine is so slow that the store would not decide what it is to decide here. After two seconds, a connection
            // would be given up before the deadline.
            ("DEADLINE_MS", "1500"),
        ];
        let variables = [&any, variables].concat();
        let program = Program::start_in("observability", &variables);
        Self {
            server: program.next_server(),
            metrics: program.next_server_after("metrics on http://"),
            program,
        }
    }

    /// Sends this number of requests of an account, and returns their statuses.
    pub(crate) fn send(&self, times: usize, path: &str, account: &str) -> Vec<u16> {
        let headers = [("x-account", account)];
        let responses = self.server.get_often(times, path, &headers);
        responses.iter().map(|response| response.status).collect()
    }

    pub(crate) fn scrape(&self) -> Scrape {
        let Response { status, body, .. } = self.metrics.get("/metrics", &[]);
        assert_eq!(status, 200);
        Scrape::read(&body)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Scrape {
    /// Families, and what kind each is.
    pub(crate) families: BTreeMap<String, String>,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Scrape {
    fn read(text: &str) -> Self {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let families = types.map(|family| family.split_once(' ').unwrap());
        let samples = text.lines().filter(|line| !line.is_empty());
        let samples = samples.filter(|line| !line.starts_with('#'));
        Self {
            families: families
                .map(|(name, kind)| (name.into(), kind.into()))
                .collect(),
            samples: samples.map(Sample::read).collect(),
        }
    }

    /// All series of a name, called by the values of their labels.
    pub(crate) fn series(&self, name: &str) -> BTreeMap<String, f64> {
        let samples = self.samples.iter().filter(|sample| sample.name == name);
        let series = samples.map(|sample| {
            let values: Vec<_> = sample.labels.values().cloned().collect();
            (values.join(" "), sample.value)
        });
        series.collect()
    }

    /// The series of a name that are not at 0.
    pub(crate) fn counted(&self, name: &str) -> BTreeMap<String, f64> {
        let mut series = self.series(name);
        series.retain(|_, count| *count > 0.0);
        series
    }

    /// One series, 0 if it is not there.
    pub(crate) fn value(&self, name: &str, labels: &str) -> f64 {
        self.series(name).get(labels).copied().unwrap_or(0.0)
    }

    /// The values of a label, of one name or of all.
    pub(crate) fn values(&self, name: Option<&str>, label: &str) -> BTreeSet<&str> {
        let samples = self.samples.iter();
        let samples = samples.filter(|sample| name.is_none_or(|name| sample.name == name));
        samples
            .filter_map(|sample| sample.labels.get(label))
            .map(String::as_str)
            .collect()
    }
}

impl Sample {
    fn read(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap().split(',');
        let labels = labels.filter_map(|label| label.split_once('='));
        let labels = labels.map(|(label, value)| (label.into(), value.trim_matches('"').into()));
        Self {
            name: name.into(),
            labels: labels.collect(),
            value: value.parse().unwrap(),
        }
    }
}

/// Series as [`Scrape::series`] has them.
pub(crate) fn series<const N: usize>(series: [(&str, f64); N]) -> BTreeMap<String, f64> {
    series
        .map(|(labels, value)| (labels.to_owned(), value))
        .into()
}
