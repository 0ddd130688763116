//! What matches, what doesn't, what is refused, as Go's `regexp` with Prometheus' anchors has it.

use super::*;

/// Pattern, texts that match, texts that don't.
const MATCHES: &[(&str, &[&str], &[&str])] = &[
    ("", &[""], &["a"]),
    ("foo", &["foo"], &["", "fo", "fooo", "FOO"]),
    ("foo|bar|", &["foo", "bar", ""], &["foobar"]),
    ("foo.*", &["foo", "foobar", "foo\nbar"], &["fo", "xfoo"]),
    ("foo.+", &["foob"], &["foo"]),
    (".*foo", &["foo", "xfoo"], &["foox"]),
    (".*foo.*", &["foo", "xfoox"], &["fo"]),
    ("a.*a", &["aa", "aba"], &["a"]),
    (".*", &["", "x\ny"], &[]),
    (".+", &["x"], &[""]),
    ("(?i)foo", &["foo", "FoO"], &["fo0"]),
    ("(?i:k)", &["k", "K", "\u{212a}"], &["x"]),
    ("(?i)stra\u{df}e", &["STRA\u{1e9e}E"], &["strasse"]),
    (r"\d+", &["12"], &["\u{0661}", "x"]),
    (r"\w", &["a", "_"], &["\u{e9}"]),
    (r"\s", &[" ", "\t"], &["\u{b}", "\u{a0}"]),
    (r"\S\D\W", &["aa-"], &["a1-"]),
    (r"[\d-z]", &["5", "-", "z"], &["y"]),
    (r"[[:alpha:]_]+", &["ab_"], &["\u{e9}"]),
    (r"[^[:space:]]", &["a"], &[" "]),
    ("[[]", &["["], &["a"]),
    ("[]a]+", &["]a"], &["b"]),
    ("[^]a]", &["b"], &["]"]),
    ("[a&&b]+", &["a&b"], &["c"]),
    ("[a~~b]+", &["a~b"], &["c"]),
    ("[+--]+", &["+,-"], &["a"]),
    (r"\<x\>", &["<x>"], &["x"]),
    (r"\Qa.b\E.", &["a.bx"], &["axbx"]),
    (r"\Qa.b", &["a.b"], &["axb"]),
    (r"\Qab\E+", &["abb"], &["abab"]),
    ("{", &["{"], &[""]),
    ("a{2", &["a{2"], &["aa"]),
    ("x{,3}", &["x{,3}"], &["xx"]),
    ("x{01}", &["x{01}"], &["x"]),
    ("a{2}", &["aa"], &["a"]),
    ("a{2,}", &["aaa"], &["a"]),
    ("a{0,2}?", &["", "aa"], &["aaa"]),
    ("(a{10}){100}", &[], &["a"]),
    (r"\x41\x{1F600}\101\0", &["A\u{1f600}A\0"], &["A"]),
    (r"\pL\p{Greek}\P{Greek}\p{^Greek}", &["a\u{3b1}bc"], &["a\u{3b1}b\u{3b1}"]),
    (r"[\pN\p{Lu}]+", &["1A"], &["a"]),
    (r"\p{Cs}", &[], &["a"]),
    (r".\bfoo\b.", &["-foo-", "\u{e9}foo "], &["xfoo-"]),
    (r"a\Bb", &["ab"], &["a"]),
    ("^foo$", &["foo"], &["foo\n"]),
    ("(?m)^a$\n^b$", &["a\nb"], &["ab"]),
    ("(?-s).+", &["ab"], &["a\nb"]),
    ("(?s-i:a)", &["a"], &["A"]),
    ("(?)a", &["a"], &["A"]),
    ("ab(?i)*", &["a", "abb"], &["abab"]),
    ("a{0,3}(?s){2}", &["aaaaaa", ""], &["aaaaaaa"]),
    ("(?U)a+", &["aa"], &["b"]),
    ("(?P<x>a)(?<y>b)", &["ab"], &["a"]),
    ("(?P<1>a)", &["a"], &["b"]),
    ("(|a)*", &["", "aa"], &["b"]),
    ("^*", &[""], &["a"]),
    ("a||b", &["a", "", "b"], &["ab"]),
    ("prod-(eu|us)-[12]", &["prod-eu-1", "prod-us-2"], &["prod-eu-3", "prod-"]),
    ("api\\..*", &["api.", "api.x"], &["apix"]),
    ("a b#c", &["a b#c"], &["abc"]),
];

#[test]
fn matches_as_re2_does() {
    for (source, yes, no) in MATCHES {
        let pattern = Pattern::new(source).unwrap_or_else(|error| panic!("{source:?}: {error}"));
        for text in *yes {
            assert!(
                pattern.is_match(text),
                "{source:?} has to match {text:?}: {:?}",
                pattern.inner.shape
            );
        }
        for text in *no {
            assert!(
                !pattern.is_match(text),
                "{source:?} must not match {text:?}: {:?}",
                pattern.inner.shape
            );
        }
    }
}

/// The short cuts and the regular expression give the same answer.
#[test]
fn shapes_agree_with_the_regular_expression() {
    for (source, yes, no) in MATCHES {
        let pattern = Pattern::new(source).unwrap();
        for text in yes.iter().chain(*no) {
            assert_eq!(
                pattern.is_match(text),
                pattern.captures(text, &mut Captures::default()),
                "{source:?} on {text:?} as {:?}",
                pattern.inner.shape
            );
        }
    }
}

/// Pattern, and the error in Go's words.
const REFUSED: &[(&str, &str)] = &[
    ("(", "missing closing ): `(`"),
    ("a(b", "missing closing ): `a(b`"),
    (")", "unexpected ): `)`"),
    ("[a", "missing closing ]: `[a`"),
    ("[]a", "missing closing ]: `[]a`"),
    ("[z-a]", "invalid character class range: `z-a`"),
    ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
    ("*", "missing argument to repetition operator: `*`"),
    ("a|*", "missing argument to repetition operator: `*`"),
    ("(+)", "missing argument to repetition operator: `+`"),
    ("(?i)*", "missing argument to repetition operator: `*`"),
    ("*?", "missing argument to repetition operator: `*?`"),
    ("{2}", "missing argument to repetition operator: `{2}`"),
    ("a**", "invalid nested repetition operator: `**`"),
    ("a*?*", "invalid nested repetition operator: `*?*`"),
    ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
    ("a{1001}", "invalid repeat count: `{1001}`"),
    ("a{3,2}", "invalid repeat count: `{3,2}`"),
    ("(a{100}){11}", "invalid repeat count: `{11}`"),
    ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
    ("(?R)a", "invalid or unsupported Perl syntax: `(?R`"),
    ("(?u)a", "invalid or unsupported Perl syntax: `(?u`"),
    ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ("(?i-)a", "invalid or unsupported Perl syntax: `(?i-)`"),
    ("(?P<a.b>x)", "invalid named capture: `(?P<a.b>`"),
    ("(?P<a>x)(?P<a>y)", "duplicate capture group name: `a`"),
    (r"\u{41}", r"invalid escape sequence: `\u`"),
    (r"\q", r"invalid escape sequence: `\q`"),
    (r"\1", r"invalid escape sequence: `\1`"),
    (r"\8", r"invalid escape sequence: `\8`"),
    (r"\Z", r"invalid escape sequence: `\Z`"),
    (r"\xz1", r"invalid escape sequence: `\xz1`"),
    (r"[\b]", r"invalid escape sequence: `\b`"),
    (r"\p{Alphabetic}", r"invalid character class range: `\p{Alphabetic}`"),
    (r"\p{greek}", r"invalid character class range: `\p{greek}`"),
    ("a\\", "trailing backslash at end of expression: ``"),
];

#[test]
fn refuses_what_re2_refuses() {
    for (source, reason) in REFUSED {
        match Pattern::new(source) {
            Ok(_) => panic!("{source:?} has to be refused"),
            Err(error) => {
                assert_eq!(
                    error.to_string(),
                    format!("error parsing regexp: {reason}"),
                    "{source:?}"
                );
            }
        }
    }
}

#[test]
fn nesting_has_a_limit() {
    let deep = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(Pattern::new(&deep).is_err());
    let fine = format!("{}a{}", "(".repeat(150), ")".repeat(150));
    assert!(Pattern::new(&fine).unwrap().is_match("a"));
}

#[test]
fn lists_the_literals_of_an_alternation() {
    let list = |source: &str| -> Option<Vec<String>> {
        let pattern = Pattern::new(source).unwrap();
        pattern.literals().map(|all| all.iter().map(ToString::to_string).collect())
    };
    assert_eq!(list("b|a|b").unwrap(), ["a", "b"]);
    assert_eq!(list("x(a|b)?").unwrap(), ["x", "xa", "xb"]);
    assert_eq!(list("(?i)ab").unwrap(), ["AB", "Ab", "aB", "ab"]);
    assert_eq!(list("a|b.*"), None);
    assert_eq!(list("[a-z]{3}"), None);
    assert_eq!(Pattern::new("foo[0-9]+").unwrap().prefix(), "foo");
}

#[test]
fn expands_templates_as_go_does() {
    let cases = [
        ("(.*)-(.*)", "a-b", "$1:$2", "a:b"),
        ("(.*)", "a", "$1x", ""),
        ("(.*)", "a", "${1}x", "ax"),
        ("(.*)", "a", "$$1", "$1"),
        ("(.*)", "a", "$", "$"),
        ("(.*)", "a", "${", "${"),
        ("(.*)", "a", "${1", "${1"),
        ("(.*)", "a", "$-", "$-"),
        ("(.*)", "a", "$0$2", "a"),
        ("(.*)", "a", "$01", ""),
        ("(?P<n>.*)", "a", "${n}$n", "aa"),
        ("(a)|(b)", "b", "[$1$2]", "[b]"),
        ("(.*)", "a", "\u{e9}$1\u{e9}", "\u{e9}"),
    ];
    let mut captures = Captures::default();
    for (source, text, template, expected) in cases {
        let pattern = Pattern::new(source).unwrap();
        assert!(pattern.captures(text, &mut captures), "{source}");
        let mut out = String::new();
        Template::new(template).expand(text, &captures, &mut out);
        assert_eq!(out, expected, "{template} for {source} on {text}");
    }
}
