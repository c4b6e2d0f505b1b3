//! What is published of a pull request's commit: texts, hostile artifacts, and what GitHub is told.

mod apps;
mod artifacts;
mod beside;
mod comments;
mod exports;
mod forms;
mod hostile;
mod pages;
mod posted;
mod records;
mod shown;
mod troubles;
mod unmeasured;
