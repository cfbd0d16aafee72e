use super::*;

const KEYS: [&str; 2] = [
    "6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=",
    "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=",
];

fn parse(text: &str) -> Result<Config, ErrorLine> {
    Config::parse("a.toml", text)
}

fn least() -> String {
    "[gateway]\nname = \"a\"\nidentity = \"a.key\"\n[lan]\ninterface = \"eth1\"\n".into()
}

fn wrong(more: &str) -> String {
    parse(&format!("{}{more}", least())).unwrap_err().to_string()
}

/// The line number of a mistake that follows the least configuration directly.
const NEXT: usize = 6;

#[test]
fn the_sample_says_what_the_defaults_are() {
    let sample = parse(SAMPLE).unwrap();
    assert_eq!(sample.gateway.name, "plant-a");
    assert_eq!(sample.peers[0].endpoint.as_deref(), Some("b.example.org:8885"));
    // Every setting appears once, commented out or not.
    let uncommented: String = SAMPLE
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let whole = parse(&uncommented).unwrap();
    assert_eq!(whole.limits, Limits::default());
    assert_eq!(whole.rekey, Rekey::default());
    assert_eq!(whole.management, Management::default());
    assert_eq!(whole.lan, sample.lan);
    assert_eq!(whole.underlay, Underlay { interface: Some("eth0".into()), ..Underlay::default() });
    let gateway = &whole.gateway;
    assert_eq!(gateway.state.as_ref(), Some(&sample.state()));
    let (ca, crl) = (Vec::new(), Vec::new());
    let plain = Gateway { state: None, user: None, ca, crl, ..gateway.clone() };
    assert_eq!(plain, sample.gateway);
    assert_eq!(whole.metrics.unwrap().listen, "127.0.0.1:9431".parse().unwrap());
    assert_eq!(whole.peers[0].keepalive, Some(Duration::from_secs(25)));
}

#[test]
fn a_mistake_is_one_line_with_field_and_line() {
    let cases = [
        ("[limits]\nflows = 15\n", "line 7: flows: 15 is out of range: 16 to 1048576"),
        ("[limits]\nflows = \"many\"\n", "line 7: flows: "),
        ("[limits]\nflows = -1\n", "line 7: flows: "),
        ("[limits]\nflow = 20\n", "line 7: unknown field `flow`"),
        ("[limit]\n", "unknown field `limit`"),
        ("[limits]\nflow_timeout = 5\n", "line 7: flow_timeout: "),
        ("[limits]\nflow_timeout = \"9s\"\n", "flow_timeout: out of range: 10s to 1d"),
        ("[limits]\nreassembly_bytes = \"1GB\"\n", "reassembly_bytes: "),
        ("queues = 17\n", "line 6: queues: 17 is out of range: 1 to 16"),
        ("busy_wait_us = 10001\n", "line 6: busy_wait_us: 10001 is out of range: 0 to 10000"),
        ("io = \"fast\"\n", "line 6: io: unknown variant `fast`"),
        ("[underlay]\nlisten = \"here\"\n", "line 7: listen: "),
        ("[underlay]\nlisten = \"[::]:0\"\n", "line 7: [underlay] listen: a port is needed"),
        ("[underlay]\nmtu = 575\n", "line 7: mtu: expected \"probe\" or 576 to 65535"),
        ("[underlay]\nmtu = \"big\"\n", "line 7: mtu: expected \"probe\""),
        ("[underlay]\nio = \"xdp\"\n", "line 7: [underlay] io: AF_XDP needs an interface"),
        (
            "[underlay]\ninterface = \"eth1\"\n",
            "line 7: [underlay] interface: it is the interface of [lan]",
        ),
        ("[underlay]\ninterface = \"a/b\"\n", "line 7: interface: \"a/b\" is no interface name"),
        ("[[peer]]\nname = \"b\"\npublic_key = \"AAAA\"\n", "line 8: public_key: not a public key"),
        ("[[peer]]\nname = \"b/c\"\n", "line 7: name: a name has"),
        ("[[peer]]\nname = \"b\"\n", "missing field `public_key` or `identity`"),
        ("what\n", "line 6: "),
    ];
    for (more, expected) in cases {
        let message = wrong(more);
        assert!(message.starts_with("a.toml"), "{message}");
        assert!(message.contains(expected), "{expected:?} is not in {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert!(wrong("oops = 1\n").contains(&format!("line {NEXT}: unknown field `oops`")));
    let gateway = parse("[gateway]\nname = \"\"\n").unwrap_err().to_string();
    assert!(gateway.contains("line 2: name: a name has 1 to 64"), "{gateway}");
    assert!(parse("").unwrap_err().to_string().contains("missing field `gateway`"));
}

#[test]
fn ranges_end_where_they_say() {
    let good = |more: &str| parse(&format!("{}{more}", least())).is_ok();
    for (inside, outside) in [
        ("[limits]\nflows = 1048576", "[limits]\nflows = 1048577"),
        ("queues = 16", "queues = 17"),
        ("queues = 1", "queues = 0"),
        ("[limits]\nheld_frames = 0", "[limits]\nheld_frames = 65537"),
        ("[limits]\nreassembly_bytes = \"64KiB\"", "[limits]\nreassembly_bytes = 65535"),
        ("[rekey]\nevery = \"10s\"", "[rekey]\nevery = \"9999ms\""),
        ("[rekey]\nevery = \"24h\"", "[rekey]\nevery = \"1441m\""),
        ("[management]\nunauthenticated = 1", "[management]\nunauthenticated = 0"),
        ("[underlay]\nmtu = 576", "[underlay]\nmtu = 65536"),
        (
            "[underlay]\ninterface = \"fifteen-letters\"",
            "[underlay]\ninterface = \"sixteen-letters!\"",
        ),
    ] {
        assert!(good(inside), "{inside}");
        assert!(!good(outside), "{outside}");
    }
}

#[test]
fn peers_differ_in_name_and_key() {
    let peer =
        |name: &str, key: &str| format!("[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\n");
    let two = |a: &str, b: &str| parse(&format!("{}{a}{b}", least()));
    assert_eq!(two(&peer("b", KEYS[0]), &peer("c", KEYS[1])).unwrap().peers.len(), 2);
    let name = two(&peer("b", KEYS[0]), &peer("b", KEYS[1])).unwrap_err().to_string();
    assert!(name.contains("line 10: name: \"b\" is the name of another gateway already"), "{name}");
    let key = two(&peer("b", KEYS[0]), &peer("c", KEYS[0])).unwrap_err().to_string();
    assert!(key.contains("line 11: public_key: it is the key of another peer already"), "{key}");
    let own = two(&peer("a", KEYS[0]), "").unwrap_err().to_string();
    assert!(own.contains("\"a\" is the name of another gateway already"), "{own}");
}

#[test]
fn endpoints_are_host_and_port() {
    let good = |endpoint: &str| {
        let key = KEYS[0];
        let peer = format!("[[peer]]\nname=\"b\"\npublic_key=\"{key}\"\nendpoint=\"{endpoint}\"\n");
        parse(&format!("{}{peer}", least())).is_ok()
    };
    for right in ["b.example.org:8885", "192.0.2.1:1", "[2001:db8::1]:65535", "b:1"] {
        assert!(good(right), "{right}");
    }
    for wrong in ["", "b", "b:", "b:0", "b:65536", ":1", "2001:db8::1:1", "[b]:1", "b c:1", "u@b:1"]
    {
        assert!(!good(wrong), "{wrong}");
    }
}

#[test]
fn other_frames_are_named_or_numbered() {
    let allow = |list: &str| {
        let text = least().replace("[lan]", &format!("allow = {list}\n[lan]"));
        parse(&text).map(|config| config.gateway.allow)
    };
    assert_eq!(
        allow(r#"["0x0806", "lldp", "bpdu", "0x600"]"#).unwrap(),
        [
            Allowed::ether_type(0x0806).unwrap(),
            Allowed::ether_type(0x88CC).unwrap(),
            Allowed::BPDU,
            Allowed::ether_type(0x0600).unwrap()
        ]
    );
    for wrong in ["0x88e5", "0x888E", "0x88b5", "0x8100", "0x5ff", "0x10000", "2054", "ARP!", ""] {
        let error = allow(&format!("[\"{wrong}\"]")).unwrap_err().to_string();
        assert!(error.contains("line 4: allow: "), "{error}");
    }
    let many = |count: u16| {
        let kinds: Vec<_> = (0..count).map(|i| format!("\"{:#x}\"", 0x1000 + i)).collect();
        allow(&format!("[{}]", kinds.join(", ")))
    };
    assert_eq!(many(MOST_ALLOWED as u16).unwrap().len(), MOST_ALLOWED);
    let error = many(MOST_ALLOWED as u16 + 1).unwrap_err().to_string();
    assert_eq!(error, "a.toml, line 4: allow: at most 61 kinds of frames are possible");
}

#[test]
fn short_headers_are_for_sealed_alone() {
    let with = |scheme: &str| {
        let text =
            least().replace("[lan]", &format!("compress = true\nscheme = \"{scheme}\"\n[lan]"));
        parse(&text)
    };
    assert!(with("sealed").unwrap().gateway.compress);
    let error = with("identifier").unwrap_err().to_string();
    assert!(error.contains("line 4: compress: "), "{error}");
}

#[test]
fn schemes_that_left_are_refused_with_their_replacement_and_plain_needs_consent() {
    let with = |lines: &str| {
        parse(&least().replace("[lan]", &format!("{lines}\n[lan]")))
            .map(|config| config.gateway.scheme)
            .map_err(|error| error.to_string())
    };
    for (name, replacement) in [("identifier-paper", "identifier"), ("encryption-paper", "sealed")]
    {
        let error = with(&format!("scheme = \"{name}\"")).unwrap_err();
        let start = format!("a.toml, line 4: scheme: \"{name}\" is no longer supported, since ");
        assert!(error.starts_with(&start), "{error}");
        assert!(error.ends_with(&format!("; use \"{replacement}\" at all gateways")), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let unknown = with("scheme = \"vxlan\"").unwrap_err();
    assert!(unknown.contains("expected one of `sealed`, `identifier`, `plain`"), "{unknown}");
    let plain = with("scheme = \"plain\"").unwrap_err();
    assert_eq!(
        plain,
        "a.toml, line 4: scheme: under \"plain\" anybody on the path reads and forges frames; use \
         \"sealed\", or accept it with nothing_is_protected = true"
    );
    let consent = "nothing_is_protected = true";
    assert_eq!(with(&format!("{consent}\nscheme = \"plain\"")), Ok(SchemeName::Plain));
    let without = with(consent).unwrap_err();
    assert!(without.starts_with("a.toml, line 4: nothing_is_protected: only"), "{without}");
    assert_eq!(with("nothing_is_protected = false"), Ok(SchemeName::Sealed));
}

#[test]
fn a_user_has_a_name_or_a_number() {
    let user = |written: &str| {
        let text = least().replace("[lan]", &format!("user = {written}\n[lan]"));
        parse(&text).map(|config| config.gateway.user.unwrap())
    };
    assert_eq!(user("\"light\"").unwrap(), "light");
    assert_eq!(user("65534").unwrap(), user("\"65534\"").unwrap());
    let error = user("true").unwrap_err().to_string();
    assert!(error.contains("line 4: user: "), "{error}");
}

#[test]
fn our_own_key_is_no_peer_s() {
    let own: PublicKey = KEYS[0].parse().unwrap();
    let peer = format!("[[peer]]\nname = \"b\"\npublic_key = \"{own}\"\n");
    let config = parse(&format!("{}{peer}", least())).unwrap();
    let error = config.check_own_key(&own.into()).unwrap_err().to_string();
    assert_eq!(error, "peer b: its key is our own");
    config.check_own_key(&KEYS[1].parse::<PublicKey>().unwrap().into()).unwrap();
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(Path::new("/nowhere/a.toml")).unwrap_err().to_string();
    assert!(error.starts_with("configuration /nowhere/a.toml: "), "{error}");
}
