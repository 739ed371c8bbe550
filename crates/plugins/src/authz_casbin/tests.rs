use super::*;
use plugin::testkit::{self, Bench};
use plugin::{Ingredients, Parent, Registry};

const RBAC: &str = "[request_definition]
r = sub, obj, act # a comment
[policy_definition]
p = sub, obj, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = (g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && \\
    keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)";

const POLICY: &str = "p, *, /, GET\n   p, admin, *, *\n# nobody\n\ng, alice, staff\ng, staff, admin";

fn model(policy: &str, effect: &str, matcher: &str) -> String {
    format!(
        "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = {policy}\n[role_definition]\n\
         g = _, _\ng2 = _, _, _\n[policy_effect]\ne = {effect}\n[matchers]\nm = {matcher}"
    )
}

fn allows(model: &str, policy: &str, request: [&str; 3]) -> bool {
    Enforcer::compile(model, policy).unwrap_or_else(|error| panic!("{model}: {error:?}")).allows(&request)
}

#[test]
fn users_have_the_rights_of_their_roles() {
    for (user, path, method, expected) in [
        ("anonymous", "/", "GET", true),
        ("anonymous", "/", "POST", false),
        ("anonymous", "/res", "GET", false),
        ("admin", "/res", "DELETE", true),
        ("alice", "/res", "DELETE", true),
        ("bob", "/res", "GET", false),
        ("", "/res", "GET", false),
    ] {
        assert_eq!(allows(RBAC, POLICY, [user, path, method]), expected, "{user} {path} {method}");
    }
}

#[test]
fn effects_combine_the_rules_that_match() {
    let policy = "p, a, /x, GET, allow\np, a, /x, GET, deny\np, b, /x, GET, deny\np, c, /x, GET\np, d, /x, GET, perhaps";
    let matcher = "r.sub == p.sub && r.obj == p.obj";
    for (effect, expected) in [
        ("some(where (p.eft == allow))", [true, false, true, false, false]),
        ("!some(where (p.eft == deny))", [false, false, true, true, true]),
        ("some(where (p.eft == allow)) && !some(where (p.eft == deny))", [false, false, true, false, false]),
        ("priority(p.eft) || deny", [true, false, true, false, false]),
    ] {
        let model = model("sub, obj, act, eft", effect, matcher);
        let found = ["a", "b", "c", "d", "e"].map(|user| allows(&model, policy, [user, "/x", "GET"]));
        assert_eq!(found, expected, "{effect}");
    }
    let sorted = model("priority, sub, obj, eft", "priority(p.eft) || deny", matcher);
    assert!(!allows(&sorted, "p, 10, a, /x, allow\np, 2, a, /x, deny", ["a", "/x", "GET"]));
}

#[test]
fn matchers_are_expressions() {
    let allow = "some(where (p.eft == allow))";
    for (matcher, expected) in [
        ("true", true),
        ("!true", false),
        ("!(r.sub == 'jack') || false", false),
        ("r.sub == \"jack\" && r.act != 'POST'", true),
        ("r.sub in ('jill', 'jack')", true),
        ("r.sub in ()", false),
        ("!r.sub in ('jill')", true),
        ("10 > 9 && 2 <= 2 && !(3 < 3) && 4 >= 4", true),
        ("r.sub < 1", false),
        ("p.sub == r.sub || (r.obj == p.obj && (r.act == 'x'))", true),
        ("g2(r.sub, 'admin', 'site')", true),
        ("g2(r.sub, 'admin', 'other')", false),
        ("eval(p.rule)", true),
        ("regexMatch(r.obj, '^/pa[t]h$')", true),
    ] {
        let model = model("sub, obj, rule", allow, matcher);
        let policy = "p, jack, /other, \"r.sub == 'jack' && keyMatch(r.obj, '/p*')\"\ng2, jack, admin, site";
        assert_eq!(allows(&model, policy, ["jack", "/path", "GET"]), expected, "{matcher}");
    }
    assert!(allows(&model("sub, obj", allow, "r.sub == 'root'"), "", ["root", "/", "GET"]), "without rules");
    assert!(!allows(&model("sub, obj", allow, "r.sub == 'root'"), "", ["", "/", "GET"]));
}

#[test]
fn what_is_not_understood_is_refused() {
    let allow = "some(where (p.eft == allow))";
    let deep = format!("{}true{}", "(".repeat(100), ")".repeat(100));
    for matcher in [
        "",
        "r.sub",
        "'a'",
        "r.sub ==",
        "r.none == 'a'",
        "x == 'a'",
        "r.sub == 'a",
        "r.sub == 'a' &",
        "(true",
        "true)",
        "true true",
        "f(r.sub, p.sub)",
        "g(r.sub)",
        "g(r.sub, p.sub, 'x')",
        "keyMatch(r.sub)",
        "keyMatch(p.sub, r.obj)",
        "regexMatch(r.sub, '(')",
        "eval(r.sub)",
        "r.sub.age > 1",
        "1x == 1",
        &deep,
    ] {
        let error = Enforcer::compile(&model("sub, obj", allow, matcher), "p, a, /").err().expect(matcher);
        assert_eq!(error.path, "/model", "{matcher}: {error:?}");
    }
    let good = model("sub, obj", allow, "r.sub == p.sub");
    for policy in ["p, a", "p, a, b, c", "g, a", "q, a, b", "p, \"a, b", "p, \"a\" x, b", "p2, a, b"] {
        let error = Enforcer::compile(&good, policy).err().expect(policy);
        assert_eq!(error.path, "/policy", "{policy}");
    }
    for text in [
        "",
        "nonsense",
        "[request_definition]\nr = sub",
        &good.replace("sub, obj, act", "sub, obj"),
        &good.replace("some(where", "any(where"),
        &good.replace("[matchers]", "[matchers]\nm2 = true"),
        &good.replace("g2 = _, _, _", "h = _, _"),
    ] {
        assert!(Enforcer::compile(text, "").is_err(), "{text}");
    }
}

#[test]
fn the_header_names_the_user_and_metadata_the_rules() {
    let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
    let metadata = json!({"model": RBAC, "policy": POLICY});
    let compile = |config: Value, metadata: Option<&Value>| {
        let parent = Parent { resource_key: "/routes/1", config_version: 1 };
        let ingredients = Ingredients { metadata, ..Ingredients::default() };
        registry
            .compile_one("authz-casbin", &config, ingredients, parent)
            .map(|plugin| plugin::Chain::new(vec![plugin]))
    };
    let status =
        |chain: &plugin::Chain, request: &str| testkit::access(chain, &mut Bench::new(request).exchange());
    let named = compile(json!({"username": "user"}), Some(&metadata)).expect("valid");
    assert_eq!(status(&named, "GET /res\nuser: alice"), 0);
    assert_eq!(status(&named, "GET /res\nuser: bob"), 403);
    assert_eq!(status(&named, "GET /"), 0, "anonymous");
    assert_eq!(status(&compile(json!({"username": "user"}), None).expect("valid"), "GET /"), 503);
    let broken = json!({"model": "x", "policy": ""});
    assert_eq!(status(&compile(json!({"username": "user"}), Some(&broken)).expect("valid"), "GET /"), 503);
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let files = json!({"username": "user", "model_path": path("m"), "policy_path": path("p")});
    assert_eq!(status(&compile(files.clone(), None).expect("valid"), "GET /"), 503, "no files");
    std::fs::write(path("m"), RBAC).expect("written");
    std::fs::write(path("p"), POLICY).expect("written");
    assert_eq!(status(&compile(files, None).expect("valid"), "GET /"), 0);
    assert!(compile(json!({"username": "user", "model": "x", "policy": ""}), None).is_err());
    for config in
        [json!({}), json!({"model": RBAC, "policy": POLICY}), json!({"model_path": "a", "policy_path": "b"})]
    {
        let errors = compile(config, None).expect_err("no username");
        assert!(errors[0].message.contains("required"), "{errors:?}");
    }
}
