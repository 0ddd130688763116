//! Rules, alerts and Alertmanagers: there are none yet, and the answers say so as Prometheus says it
//! when none are configured.

use super::answer::success;
use super::error::ApiError;
use super::form::Form;
use super::reply::Answer;

/// `/rules`
pub(super) fn rules(form: &Form) -> Result<Answer, ApiError> {
    form.selectors().map_err(ApiError::bad_data)?;
    let kind = form.get("type").to_lowercase();
    if !matches!(kind.as_str(), "" | "alert" | "record") {
        let quoted = promql::quote::quoted(&kind);
        return Err(ApiError::parameter("type", format!("not supported value {quoted}")));
    }
    Ok(success(|out| out.text("{\"groups\":[]}")))
}

/// `/alerts`
pub(super) fn alerts() -> Answer {
    success(|out| out.text("{\"alerts\":[]}"))
}

/// `/alertmanagers`
pub(super) fn alertmanagers() -> Answer {
    success(|out| out.text("{\"activeAlertmanagers\":[],\"droppedAlertmanagers\":[]}"))
}
