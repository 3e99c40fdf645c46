//! `tools/list`, `prompts/list`, `resources/list` and `resources/templates/list`.

use turms_core::{CallResult, Payload};
use turms_proto::types::{CacheScope, PaginatedParams};

use super::Router;
use crate::catalog::{CatalogList, ListStyle};
use crate::context::Context;

impl Router {
    pub(super) fn list(&self, kind: CatalogList, params: Payload, context: &Context) -> CallResult {
        let params: PaginatedParams = params.take()?;
        self.require_kind(kind, kind.method(), context)?;
        let (settings, catalog) = (&self.0.settings, self.0.handle.catalog());
        let own = context.session().and_then(|session| session.core().own.load_full());
        let (cursor, style) = (params.cursor.as_ref(), &settings.lists);
        if own.is_none() && settings.visible.is_none() {
            return Ok(Payload::lowered(catalog.page(kind, cursor, context.protocol_version(), style)?));
        }
        let visible = settings.visible_to(&catalog, own.as_deref(), context);
        let style = ListStyle { scope: CacheScope::Private, ..style.clone() };
        Ok(Payload::lowered(visible.page(kind, cursor, context.protocol_version(), &style)?))
    }
}
