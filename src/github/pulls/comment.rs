//! One comment of ours on a pull request, found again by a mark and its author, and updated in place.
//!
//! A mark alone proves nothing: anybody can write it. So a comment is ours only if its first line is the mark and
//! the account that wrote it is the one that this token writes as.

use crate::identity::User;
use crate::{Client, Error};
use serde::{Deserialize, Serialize};

/// Pages of comments that are read of one pull request.
const MOST_PAGES: u32 = 300;

/// A comment that is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickyComment {
    pub id: u64,
    pub body: String,
    pub url: String,
    /// Ids of further comments of ours with the same mark; they are left alone.
    pub others: Vec<u64>,
}

#[derive(Deserialize)]
struct CommentWire {
    id: u64,
    #[serde(default)]
    body: Option<String>,
    html_url: String,
    user: Option<User>,
}

#[derive(Serialize)]
struct Body<'a> {
    body: &'a str,
}

impl Client {
    /// The oldest comment whose first line is `mark` and whose author is `author`; every page is read.
    pub async fn sticky_comment(
        &self,
        pull: u64,
        mark: &str,
        author: u64,
    ) -> Result<Option<StickyComment>, Error> {
        let route = self.route(&format!("/issues/{pull}/comments"));
        let all: Vec<CommentWire> = self.pages(&route, MOST_PAGES).await?;
        Ok(ours(all, mark, author))
    }

    /// Updates the comment that was found, or creates one; its id and address. One that was deleted since is created
    /// anew; one that an unanswered attempt created after all is found again where our id is known.
    pub async fn write_comment(
        &self,
        pull: u64,
        mark: &str,
        author: Option<u64>,
        found: Option<&StickyComment>,
        body: &str,
    ) -> Result<(u64, String), Error> {
        if let Some(found) = found {
            let route = self.route(&format!("/issues/comments/{}", found.id));
            match self.patch::<_, CommentWire>(&route, &Body { body }).await {
                Ok(comment) => return Ok((comment.id, comment.html_url)),
                Err(error) if matches!(error.status(), Some(404 | 410)) => {}
                Err(error) => return Err(error),
            }
        }
        let route = self.route(&format!("/issues/{pull}/comments"));
        let there = async || {
            let Some(author) = author else {
                return Ok(None);
            };
            let found = self.sticky_comment(pull, mark, author).await?;
            Ok(found.map(|found| CommentWire {
                id: found.id,
                body: Some(found.body),
                html_url: found.url,
                user: None,
            }))
        };
        let comment: CommentWire = self.post_once(&route, &Body { body }, there).await?;
        self.wrote(comment.user.as_ref());
        Ok((comment.id, comment.html_url))
    }

    pub async fn delete_comment(&self, id: u64) -> Result<(), Error> {
        let route = self.route(&format!("/issues/comments/{id}"));
        self.delete(&route).await
    }
}

fn ours(all: Vec<CommentWire>, mark: &str, author: u64) -> Option<StickyComment> {
    let is_ours = |comment: &CommentWire| {
        let first = comment.body.as_deref().and_then(|body| body.lines().next());
        let is_author = comment.user.as_ref().is_some_and(|user| user.id == author);
        is_author && first.is_some_and(|line| line.trim_end() == mark)
    };
    let mut ours: Vec<CommentWire> = all.into_iter().filter(is_ours).collect();
    ours.sort_by_key(|comment| comment.id);
    let mut ours = ours.into_iter();
    let first = ours.next()?;
    Some(StickyComment {
        id: first.id,
        body: first.body.unwrap_or_default(),
        url: first.html_url,
        others: ours.map(|comment| comment.id).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_has_the_mark_first_and_our_name_below() {
        const MARK: &str = "<!-- mark -->";
        let comment = |id, body: Option<&str>, user: Option<u64>| CommentWire {
            id,
            body: body.map(str::to_owned),
            html_url: format!("https://example/{id}"),
            user: user.map(|id| User { id }),
        };
        let found = |all| ours(all, MARK, 7).map(|found| (found.id, found.others));
        let check =
            |all: Vec<CommentWire>, expect: Option<(u64, Vec<u64>)>| assert_eq!(found(all), expect);
        check(vec![], None);
        check(vec![comment(1, Some("<!-- mark -->\nx"), Some(8))], None);
        check(vec![comment(1, Some("<!-- mark -->\nx"), None)], None);
        check(vec![comment(1, Some("x\n<!-- mark -->"), Some(7))], None);
        check(
            vec![
                comment(1, Some("x <!-- mark -->"), Some(7)),
                comment(2, None, Some(7)),
            ],
            None,
        );
        check(
            vec![comment(1, Some("<!-- mark -->\r\nx"), Some(7))],
            Some((1, vec![])),
        );
        let three = [9, 4, 6].map(|id| comment(id, Some(MARK), Some(7)));
        check(three.into(), Some((4, vec![6, 9])));
    }
}
