"""Templates: parts of jobs that a tenant keeps under names of its own."""

from corral.batches import TemplateSpec, TemplateView
from corral.contract import Page
from fastapi import APIRouter

from api.auth import ActiveCaller, TenantCaller
from api.paging import AskedPage
from api.paths import TemplatePath, TenantQuery
from api.transactions import Reading, Writing
from store.paging import Position
from store.tables import JobTemplate
from store.templates import delete_template, put_template, show_template, templates

router = APIRouter(prefix="/templates", tags=["templates"])


@router.get("")
def list_templates(
    caller: TenantCaller, session: Reading, paging: AskedPage, tenant_id: TenantQuery = None
) -> Page[TemplateView]:
    """The tenant's templates, by name."""
    rows = templates(session, caller.acting_for(tenant_id), paging.limit, paging.start_name)
    return paging.page(rows, _view, lambda row: Position(0, row.name))


@router.get("/{name}")
def show(name: TemplatePath, caller: TenantCaller, session: Reading, tenant_id: TenantQuery = None) -> TemplateView:
    """One template."""
    return _view(show_template(session, caller.acting_for(tenant_id), name))


@router.put("/{name}")
def put(
    name: TemplatePath, body: TemplateSpec, caller: ActiveCaller, session: Writing, tenant_id: TenantQuery = None
) -> TemplateView:
    """Keep a part of a job under this name, in the place of what was there."""
    return _view(put_template(session, caller.acting_for(tenant_id), name, body.job))


@router.delete("/{name}", status_code=204)
def delete(name: TemplatePath, caller: ActiveCaller, session: Writing, tenant_id: TenantQuery = None) -> None:
    """Forget it. Jobs that were made from it stay as they are."""
    delete_template(session, caller.acting_for(tenant_id), name)


def _view(found: JobTemplate) -> TemplateView:
    return TemplateView(name=found.name, version=found.version, job=found.fields, changed_at=found.changed_us)
