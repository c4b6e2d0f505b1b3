//! The header `Link` of a list's answer: where its next page is (RFC 8288; GitHub, "Using pagination in the
//! REST API").

/// The target whose `rel` is `next`.
pub fn next(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters
            .split(';')
            .any(|p| matches!(p.trim(), "rel=\"next\"" | "rel=next"));
        is_next.then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn finds_the_next_page() {
        let first = "<https://a/x?page=2>; rel=\"next\", <https://a/x?page=5>; rel=\"last\"";
        let last = "<https://a/x?page=1>; rel=\"first\", <https://a/x?page=4>; rel=\"prev\"";
        for (header, expect) in [
            (first, Some("https://a/x?page=2")),
            (last, None),
            ("", None),
            ("nonsense", None),
            ("<no end; rel=\"next\"", None),
        ] {
            assert_eq!(next(header), expect, "{header}");
        }
    }
}
