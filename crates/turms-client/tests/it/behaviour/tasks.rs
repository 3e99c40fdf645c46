//! Tools that run as tasks, for clients with tasks and without.

use serde_json::json;
use turms_client::{Change, ClientBuilder};
use turms_proto::method::Method as _;
use turms_proto::revision::method_info;
use turms_proto::types::{Elicit, SubscriptionFilter, TaskStatus};
use turms_proto::{Ability, ErrorCode, ProtocolVersion};

use crate::behaviour::reach::{Way, along, everywhere, everywhere_as, person};

fn patient() -> ClientBuilder {
    person().enable_tasks()
}

/// Returns `true` if the revision has elicitation.
fn asks(version: ProtocolVersion) -> bool {
    version.has(Ability::InputRequired) || method_info(Elicit::NAME).unwrap().is_defined_in(version)
}

const WITH_TASKS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

#[tokio::test]
async fn a_call_waits_for_its_task_and_handles_its_input_requests() {
    everywhere_as(patient, async |client| {
        if asks(client.version) {
            assert_eq!(client.text("greet_job", ()).await, "Paris, Ann! (1)");
            // Every revision runs the side effect before the input request once.
            assert_eq!(client.count("effects").await, 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_runs_only_as_a_task_is_run_as_one() {
    along(&Way::ALL, &WITH_TASKS, patient, async |client| {
        client.list_tools().await.unwrap();
        let sum = client.call_tool("sum_job", json!({ "a": 1, "b": 2 })).await.unwrap();
        assert_eq!(sum.structured_content.unwrap().as_str(), r#"{"sum":3.0}"#);
    })
    .await;
}

#[tokio::test]
async fn clients_without_tasks_make_calls() {
    everywhere(async |client| {
        if asks(client.version) {
            assert_eq!(client.text("greet_job", ()).await, "Paris, Ann! (1)");
            assert_eq!(client.text("asking_job", ()).await, "Ann false");
        }
        let refused = client.call_tool("sum_job", json!({ "a": 1, "b": 2 })).await;
        let code = if client.version.has(Ability::TasksExtension) {
            ErrorCode::MISSING_CLIENT_CAPABILITY
        } else if client.version.has(Ability::CoreTasks) {
            ErrorCode::METHOD_NOT_FOUND
        } else {
            assert!(refused.is_ok(), "{refused:?}");
            return;
        };
        assert_eq!(refused.unwrap_err().error_response().unwrap().code, code);
    })
    .await;
}

#[tokio::test]
async fn a_task_handle_reads_the_status_and_cancels() {
    along(&Way::ALL, &WITH_TASKS, person, async |client| {
        let task = client.call_tool_as_task("slow_job", ()).await.unwrap();
        assert_eq!(task.status(), TaskStatus::Working);
        client.reaches("job started", 1).await;
        let same = client.task(task.id().unwrap()).await.unwrap();
        assert_eq!(same.refresh().await.unwrap().unwrap().status, TaskStatus::Working);
        task.cancel().await.unwrap();
        client.reaches("job stopped", 1).await;
        assert_eq!(same.refresh().await.unwrap().unwrap().status, TaskStatus::Cancelled);
        assert!(same.wait().await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_dropped_call_cancels_its_task() {
    along(&Way::ALL, &[ProtocolVersion::V2026_07_28], patient, async |client| {
        let calling = tokio::spawn({
            let client = client.client.clone();
            async move { client.call_tool("slow_job", ()).await }
        });
        client.reaches("job started", 1).await;
        // A poll is in progress or has just completed.
        client.reaches("tasks/get", 1).await;
        calling.abort();
        client.reaches("job stopped", 1).await;
    })
    .await;
}

#[tokio::test]
async fn a_call_can_request_input_before_it_becomes_a_task() {
    along(&Way::ALL, &[ProtocolVersion::V2026_07_28], patient, async |client| {
        assert_eq!(client.text("asking_job", ()).await, "Ann true");
    })
    .await;
}

#[tokio::test]
async fn the_status_of_a_task_arrives_on_its_subscription() {
    along(&Way::ALL, &[ProtocolVersion::V2026_07_28], patient, async |client| {
        let task = client.call_tool_as_task("slow_job", ()).await.unwrap();
        let filter = SubscriptionFilter::new().task_ids(vec![task.id().unwrap().to_owned()]);
        let mut changes = client.subscribe(filter).await.unwrap();
        assert!(changes.acknowledged().task_ids.is_some());
        task.cancel().await.unwrap();
        let Some(Change::Task { id, status }) = changes.next().await else { panic!("the change is not a task") };
        assert_eq!((id.as_str(), status), (task.id().unwrap(), TaskStatus::Cancelled));
    })
    .await;
}
