//! The state of a client.

use turms_client::{CallErrorKind, ClosedCause, ConnectionEvent, ConnectionStatus, Delivery, Event};
use turms_proto::types::SubscriptionFilter;

use crate::behaviour::reach::{Reached, Way, everywhere};

#[tokio::test]
async fn a_connected_client_has_its_status_and_statistics() {
    everywhere(async |client| {
        assert_eq!(client.status(), ConnectionStatus::Ready);
        let before = client.stats().connection;
        client.text("who", ()).await;
        client.call_tool("refuse", ()).await.unwrap_err();
        client.notify_raw("fixture/ring", None).await.unwrap();
        client.reaches("rung", 1).await;
        let after = client.stats().connection;
        assert_eq!(after.requests_sent, before.requests_sent + 3);
        assert_eq!(after.completed, before.completed + 2);
        assert_eq!(after.failed, before.failed + 1);
        assert_eq!(after.notifications_sent, before.notifications_sent + 1);
        if client.way != Way::Local {
            assert!(after.bytes_sent > before.bytes_sent && after.bytes_received > before.bytes_received);
        }
    })
    .await;
}

#[tokio::test]
async fn a_closed_client_makes_no_calls() {
    everywhere(async |client| {
        let other = client.client.clone();
        client.close().await;
        assert_eq!((client.status(), other.status()), (ConnectionStatus::Closed, ConnectionStatus::Closed));
        assert_eq!((client.protocol_version(), client.server_info().is_none()), (None, true));
        let error = other.call_tool("list", ()).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::NotConnected(None))), "{error}");
        assert_eq!((error.delivery(), error.is_disconnected()), (Delivery::NotSent, true));
        for error in [
            other.ping().await.unwrap_err(),
            other.list_tools().await.unwrap_err(),
            other.read_resource("config://app").await.unwrap_err(),
            other.get_prompt("plain", ()).await.unwrap_err(),
            other.subscribe("config://app").await.unwrap_err(),
            other.request_raw("fixture/twice", ()).await.unwrap_err(),
            other.notify_raw("fixture/ring", None).await.unwrap_err(),
            other.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap_err(),
        ] {
            assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::NotConnected(_))), "{error}");
        }
        let mut batch = other.batch();
        let slot = batch.call_tool("list", ());
        assert!(batch.send().await.take(slot).unwrap_err().is_disconnected());
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn closing_the_client_fails_its_running_calls() {
    everywhere(async |client| {
        let call = tokio::spawn(client.call_tool("slow", ()).into_future());
        client.reaches("started", 1).await;
        client.close().await;
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::Lost(_))), "{error}");
        assert!(error.is_disconnected() && error.may_have_run());
        assert!(client.pending_calls().is_empty());
    })
    .await;
}

#[tokio::test]
async fn the_events_end_when_the_client_closes() {
    everywhere(async |client| {
        let mut events = client.events();
        client.close().await;
        let closed = events.find(|event| matches!(event, Event::Connection(ConnectionEvent::Closed)).then_some(()));
        closed.await.unwrap();
        assert!(events.next().await.is_none());
        assert!(client.events().next().await.is_none(), "an event stream that is opened later ends at once");
    })
    .await;
}

#[tokio::test]
async fn the_events_end_when_the_last_clone_is_dropped() {
    everywhere(async |client| {
        let Reached { client, .. } = client;
        let (mut events, clone) = (client.events(), client.clone());
        drop(client);
        clone.ping().await.unwrap();
        drop(clone);
        while events.next().await.is_some() {}
    })
    .await;
}

#[tokio::test]
async fn a_server_that_ends_closes_the_connection() {
    everywhere(async |client| {
        // A service in the same process cannot end, and HTTP has no connection that can be lost between requests.
        if matches!(client.way, Way::Local | Way::Http) {
            return;
        }
        let mut events = client.events();
        client.text("end", ()).await;
        let lost = events.find(|event| matches!(event, Event::Connection(ConnectionEvent::Lost(_))).then_some(()));
        lost.await.unwrap();
        while events.next().await.is_some() {}
        assert_eq!(client.status(), ConnectionStatus::Closed);
        let error = client.call_tool("list", ()).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::NotConnected(Some(_)))), "{error}");
        assert!(error.is_disconnected() && !error.may_have_run());
    })
    .await;
}
