//! Log of a program: events of `tracing`, one JSON object per line.

use std::{fmt, fs::File, io::stderr};

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, MakeWriter,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// Format of the log.
#[derive(Debug, Default)]
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields(Map::new());
        fields.0.insert("time".into(), time.into());
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        fields.0.insert("level".into(), level.into());
        event.record(&mut fields);
        writeln!(writer, "{}", Value::Object(fields.0))
    }
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // `null` if it is not finite.
        self.0.insert(field.name().into(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().into(), value.into());
    }
}

/// Starts the log of this process on standard error, with events of at least `level`. A second start
/// has no effect.
pub fn start(level: Level) {
    start_with(level, stderr);
}

/// Starts the log of this process in `file`, with events of at least `level`. A second start has no
/// effect.
pub fn start_in(file: File, level: Level) {
    start_with(level, file);
}

fn start_with(level: Level, writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static) {
    let _ = tracing::subscriber::set_global_default(subscriber(level, writer));
}

fn subscriber(
    level: Level,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(writer)
        // A full disk must not make a program fail.
        .log_internal_errors(false)
        .event_format(JsonLines)
        .finish()
}

#[cfg(test)]
mod tests {
    use std::fs::read_to_string;

    use super::*;

    #[test]
    fn an_event_is_a_line_of_json_with_its_fields() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = subscriber(Level::INFO, file.reopen().unwrap());
        let path = file.into_temp_path();
        tracing::subscriber::with_default(log, || {
            let (loss, rate) = (1.5, f64::NAN);
            tracing::warn!(step = 7_u64, loss, rate, "a \"batch\"\nwas skipped");
            tracing::debug!("not in the log");
        });
        let text = read_to_string(path).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [line] = &lines[..] else { panic!("{text}") };
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
        assert_eq!((&line["level"], &line["step"]), (&"warn".into(), &7.into()));
        assert_eq!((&line["loss"], &line["rate"]), (&1.5.into(), &Value::Null));
        assert_eq!(line["message"], "a \"batch\"\nwas skipped");
    }
}
