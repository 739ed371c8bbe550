//! What `tidegate quickstart` changes: loopback alone, and the Admin API where APISIX 2.14 had it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net};

use crate::key_file::Generated;
use config::settings::{Admin, AdminKey, AdminRole, Listen, Settings};

/// The key of APISIX's own examples. The Admin API accepts it from loopback addresses, in the `X-API-KEY` header of
/// requests that no web page sent.
pub const WELL_KNOWN_KEY: &str = "edd1c9f034335f136f87ad84b625c8f1";

/// Restricts every listener to loopback and opens the Admin API on the data ports.
pub fn apply(settings: &mut Settings) {
    let (proxied, streams) = (&mut settings.proxy_protocol, &mut settings.streams);
    let of_http =
        [&mut settings.proxy.listen, &mut settings.tls.listen, &mut proxied.http, &mut proxied.https];
    for addresses in of_http {
        for listen in addresses.iter_mut() {
            *listen = Listen { address: on_loopback(listen.address), implied: false };
        }
        let mut seen = Vec::new();
        addresses.retain(|listen| {
            let new = listen.address.port() == 0 || !seen.contains(&listen.address);
            seen.push(listen.address);
            new
        });
    }
    let of_streams = streams.tcp.iter_mut().map(|listen| &mut listen.address).chain(&mut streams.udp);
    let servers = [&mut settings.control, &mut settings.status, &mut settings.metrics.listen];
    for address in servers.into_iter().flatten().chain(of_streams) {
        *address = on_loopback(*address);
    }
    let admin = settings.admin.get_or_insert_with(Admin::default);
    admin.listen = on_loopback(admin.listen);
    admin.on_data_ports = true;
    admin.cors = false;
    admin.allow = vec![
        Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8).into(),
        IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST)),
    ];
    if !admin.keys.iter().any(|known| known.key == WELL_KNOWN_KEY) {
        admin.keys.push(AdminKey {
            name: "quickstart".into(),
            key: WELL_KNOWN_KEY.into(),
            role: AdminRole::Admin,
        });
    }
}

/// The first steps, printed when the gateway is ready. `key` is the generated admin key; `None` where the configuration
/// names one, which stays out of the terminal.
pub fn greeting(settings: &Settings, key: Option<&Generated>) -> String {
    let port = settings.proxy.listen.first().map_or(0, |listen| listen.address.port());
    let (header, kept) = match key {
        Some(Generated { key, path, .. }) => (
            key.as_str(),
            format!("The admin key is kept in {}, readable by its owner alone.\n", path.display()),
        ),
        None => ("YOUR-ADMIN-KEY", String::new()),
    };
    format!(
        "This is the quick start: it listens on loopback addresses only and also accepts the admin key of APISIX's\n\
         documentation, in the X-API-KEY header of requests from this machine. Use `tidegate start` for production.\n\
         {kept}\n\
         Create a route to a server (here 127.0.0.1:1980), and send a request through it:\n\n  \
           curl http://127.0.0.1:{port}/apisix/admin/routes/1 -H 'X-API-KEY: {header}' -X PUT -d '\n  \
           {{\"uri\": \"/hello\", \"upstream\": {{\"type\": \"roundrobin\", \"nodes\": {{\"127.0.0.1:1980\": 1}}}}}}'\n  \
           curl -i http://127.0.0.1:{port}/hello\n"
    )
}

/// The same port of 127.0.0.1; addresses that are loopback already stay.
fn on_loopback(address: SocketAddr) -> SocketAddr {
    if address.ip().is_loopback() { address } else { SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::read_text;

    #[test]
    fn nothing_listens_beyond_loopback() {
        let texts = [
            "",
            "apisix: {node_listen: [9080, {ip: '::1', port: 9081}, {ip: 10.0.0.1, port: 9082}], control: {ip: 0.0.0.0}}\n\
             deployment: {admin: {admin_listen: {ip: 0.0.0.0}, allow_admin: []}}\n",
            "apisix: {enable_admin: false, status: {ip: '::'}}\nplugin_attr: {prometheus: {export_addr: {ip: 0.0.0.0}}}\n",
        ];
        for text in texts {
            let mut settings =
                read_text("f", text, &|_| None).unwrap_or_else(|report| panic!("{report}")).settings;
            apply(&mut settings);
            let admin = settings.admin.clone().unwrap();
            let servers = [settings.control, settings.status, settings.metrics.listen, Some(admin.listen)];
            let data = settings.proxy.listen.iter().chain(&settings.tls.listen).map(|listen| listen.address);
            assert!(
                servers.into_iter().flatten().chain(data).all(|address| address.ip().is_loopback()),
                "{text}"
            );
            assert!(admin.on_data_ports && admin.keys.iter().any(|key| key.key == WELL_KNOWN_KEY));
            assert!(
                admin.allow.iter().all(|network| network.addr().is_loopback()) && !admin.allow.is_empty()
            );
        }
    }

    #[test]
    fn the_default_is_one_port() {
        let mut settings = read_text("f", "", &|_| None).unwrap().settings;
        apply(&mut settings);
        assert_eq!(
            settings.proxy.listen,
            [Listen { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9080)), implied: false }]
        );
        let key = Generated { key: "abc".into(), path: "/data/admin.key".into(), new: false };
        let text = greeting(&settings, Some(&key));
        assert!(text.contains("http://127.0.0.1:9080/apisix/admin/routes/1 -H 'X-API-KEY: abc' "), "{text}");
        assert!(text.contains("/data/admin.key") && !text.contains(WELL_KNOWN_KEY));
        assert!(greeting(&settings, None).contains("YOUR-ADMIN-KEY"));
    }
}
