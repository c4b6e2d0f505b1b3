pub(crate) struct Tool;
pub(crate) struct Run {
    pub(crate) errors: crate::errors::Errors,
    pub(crate) cpu_s: f64,
    pub(crate) reached: u32,
}
pub(crate) fn found(_: Option<&str>) -> Vec<Tool> {
    vec![]
}
impl Tool {
    pub(crate) fn name(&self) -> &'static str {
        "x"
    }
    pub(crate) fn run(&self, _: std::net::SocketAddr, _: u32, _: u32) -> crate::Outcome<Run> {
        Err("x".into())
    }
}
