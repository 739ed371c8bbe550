use super::*;

fn worker() -> WorkerToken {
    WorkerToken::claim().expect("fewer tests than tokens")
}

const LABELS: HttpLabels<'static> = HttpLabels {
    code: 200,
    response_source: "upstream",
    route: "1",
    service: "",
    consumer: "",
    node: "127.0.0.1",
    source_serial: 0,
    matched_uri: "/hello",
    matched_host: "",
};

const SAMPLE: HttpSample =
    HttpSample { request_us: 1_500, upstream_us: Some(1_000), ingress_bytes: 100, egress_bytes: 250 };

/// The lines of the exposition that begin with `start`.
fn lines(metrics: &Metrics, start: &str) -> Vec<String> {
    exposition(metrics).lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
}

#[test]
fn a_request_shows_in_apisix_names_and_labels() {
    let (metrics, worker) = (Metrics::default(), worker());
    for _ in 0..3 {
        metrics.record_http(&worker, || LABELS, DisabledLabels::default(), &SAMPLE);
    }
    let text = exposition(&metrics);
    let traffic = r#"route="1",service="",consumer="",node="127.0.0.1",request_type="traditional_http",request_llm_model="",llm_model="""#;
    for line in [
        "# TYPE apisix_http_status counter".to_owned(),
        r#"apisix_http_status{code="200",route="1",matched_uri="/hello",matched_host="",service="",consumer="",node="127.0.0.1",request_type="traditional_http",request_llm_model="",llm_model="",response_source="upstream"} 3"#.to_owned(),
        "# TYPE apisix_http_latency histogram".to_owned(),
        format!("apisix_http_latency_bucket{{type=\"request\",{traffic},le=\"1\"}} 0"),
        format!("apisix_http_latency_bucket{{type=\"request\",{traffic},le=\"2\"}} 3"),
        format!("apisix_http_latency_bucket{{type=\"request\",{traffic},le=\"60000\"}} 3"),
        format!("apisix_http_latency_bucket{{type=\"request\",{traffic},le=\"+Inf\"}} 3"),
        format!("apisix_http_latency_count{{type=\"request\",{traffic}}} 3"),
        format!("apisix_http_latency_sum{{type=\"request\",{traffic}}} 4.5"),
        format!("apisix_http_latency_sum{{type=\"upstream\",{traffic}}} 3"),
        format!("apisix_http_latency_sum{{type=\"apisix\",{traffic}}} 1.5"),
        format!("apisix_bandwidth{{type=\"ingress\",{traffic}}} 300"),
        format!("apisix_bandwidth{{type=\"egress\",{traffic}}} 750"),
        "apisix_http_requests_total 0".to_owned(),
        "apisix_nginx_http_current_connections{state=\"active\"} 0".to_owned(),
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\nnot in\n{text}");
    }
    assert!(!text.contains("etcd_reachable"), "nothing to say, no lines");
}

#[test]
fn every_sample_follows_the_head_of_its_metric() {
    let (metrics, worker) = (Metrics::default(), worker());
    metrics.record_http(&worker, || LABELS, DisabledLabels::default(), &SAMPLE);
    metrics.set(Metric::NodeInfo, &["host", "1.0"], 1.0);
    let mut current = String::new();
    for line in exposition(&metrics).lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            current = head.split(' ').next().expect("a name").to_owned();
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&current), "{line} stands under {current}");
        }
    }
}

#[test]
fn without_an_upstream_there_is_no_upstream_latency() {
    let (metrics, worker) = (Metrics::default(), worker());
    let sample = HttpSample { upstream_us: None, ..SAMPLE };
    metrics.record_http(&worker, || LABELS, DisabledLabels::default(), &sample);
    assert!(lines(&metrics, "apisix_http_latency_count{type=\"upstream\"").is_empty());
    assert!(lines(&metrics, "apisix_http_latency_sum{type=\"apisix\"")[0].ends_with(" 1.5"));
}

#[test]
fn workers_are_added_up() {
    let metrics = Metrics::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let worker = worker();
                for _ in 0..1_000 {
                    metrics.record_http(&worker, || LABELS, DisabledLabels::default(), &SAMPLE);
                }
            });
        }
    });
    let status = lines(&metrics, "apisix_http_status");
    assert_eq!(status.len(), 1);
    assert!(status[0].ends_with(" 4000"), "{status:?}");
}

#[test]
fn disabled_labels_are_empty_and_their_series_one() {
    let (metrics, worker) = (Metrics::default(), worker());
    let mut disabled = DisabledLabels::default();
    assert!(disabled.disable(Metric::HttpStatus, "node"));
    assert!(!disabled.disable(Metric::HttpStatus, "code"), "the series' identity");
    assert!(!disabled.disable(Metric::HttpLatency, "matched_uri"), "no such label there");
    for node in ["10.0.0.1", "10.0.0.2"] {
        metrics.record_http(&worker, || HttpLabels { node, ..LABELS }, disabled, &SAMPLE);
    }
    let status = lines(&metrics, "apisix_http_status");
    assert_eq!(status.len(), 1);
    assert!(status[0].contains("node=\"\"") && status[0].ends_with(" 2"), "{status:?}");
    assert_eq!(lines(&metrics, "apisix_http_latency_count{type=\"request\"").len(), 2);
}

#[test]
fn a_full_metric_counts_on_in_an_overflow_series() {
    let config = MetricsConfig { series_max: 10, ..MetricsConfig::default() };
    let (metrics, worker) = (Metrics::new(&config), worker());
    for n in 0..100 {
        let route = n.to_string();
        let labels = || HttpLabels { route: &route, ..LABELS };
        metrics.record_http(&worker, labels, DisabledLabels::default(), &SAMPLE);
        metrics.record_http(&worker, labels, DisabledLabels::default(), &SAMPLE);
    }
    let status = lines(&metrics, "apisix_http_status");
    assert_eq!(status.len(), 11);
    let overflow =
        status.iter().find(|line| line.contains("route=\"overflow\"")).expect("an overflow series");
    assert!(overflow.contains("code=\"200\"") && overflow.ends_with(" 180"), "{overflow}");
    let dropped = lines(&metrics, "apisix_metric_series_overflow_total{metric=\"http_status\"}");
    assert!(dropped[0].ends_with(" 90"), "{dropped:?}");
    // A label that is alone is not one of few values.
    for n in 0..100 {
        let sample = StreamSample {
            route: &n.to_string(),
            code: 200,
            listen_addr: "127.0.0.1:9100",
            node: "",
            bytes: [("ingress", "downstream", 1); 4],
        };
        metrics.record_stream(&worker, &sample);
    }
    let sessions = lines(&metrics, "apisix_stream_connection_total");
    assert_eq!(sessions.len(), 11);
    assert!(
        sessions.contains(&r#"apisix_stream_connection_total{route="overflow"} 90"#.to_owned()),
        "{sessions:?}"
    );
}

#[test]
fn more_label_sets_than_a_worker_remembers_are_all_counted() {
    let config = MetricsConfig { series_max: SERIES_MAX, buckets_ms: vec![1.0], ..MetricsConfig::default() };
    let (metrics, worker) = (Metrics::new(&config), worker());
    for _ in 0..2 {
        for n in 0..20_000 {
            let route = n.to_string();
            let labels = || HttpLabels { route: &route, ..LABELS };
            metrics.record_http(&worker, labels, DisabledLabels::default(), &SAMPLE);
        }
    }
    let status = lines(&metrics, "apisix_http_status");
    assert_eq!(status.len(), 20_000);
    assert!(status.iter().all(|line| line.ends_with(" 2")));
}

#[test]
fn gauges_are_set_and_replaced() {
    let metrics = Metrics::new(&MetricsConfig {
        prefix: "gw_".to_owned(),
        buckets_ms: vec![5.0, 0.5, 5.0, f64::NAN],
        series_max: 0,
    });
    metrics.set(Metric::NodeInfo, &["a\"b", "1.0"], 1.0);
    metrics.set(Metric::UpstreamStatus, &["/upstreams/1", "10.0.0.1", "80"], 1.0);
    let fresh: [(&[&str], f64); 1] = [(&["/upstreams/1", "10.0.0.2", "80"], 0.0)];
    metrics.replace(Metric::UpstreamStatus, fresh);
    assert_eq!(lines(&metrics, "gw_node_info"), [r#"gw_node_info{hostname="a\"b",version="1.0"} 1"#]);
    assert_eq!(
        lines(&metrics, "gw_upstream_status"),
        [r#"gw_upstream_status{name="/upstreams/1",ip="10.0.0.2",port="80"} 0"#]
    );
    let worker = worker();
    metrics.record_http(&worker, || LABELS, DisabledLabels::default(), &SAMPLE);
    let bounds: Vec<_> = lines(&metrics, "gw_http_latency_bucket{type=\"request\"")
        .iter()
        .filter_map(|line| line.split("le=").nth(1).map(str::to_owned))
        .collect();
    assert_eq!(bounds, ["\"0.5\"} 0", "\"5\"} 1", "\"+Inf\"} 1"]);
}
