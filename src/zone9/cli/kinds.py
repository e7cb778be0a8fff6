"""The commands of one kind of resource, made from the registry: list, show, create, set, delete, and its actions."""

from typing import Annotated, Any

import typer

from zone9.cli import output
from zone9.cli.arguments import spec_of
from zone9.cli.client import Api
from zone9.cli.context import Session
from zone9.cli.words import say
from zone9.model.ports import Product

Name = Annotated[str, typer.Argument(help="name or id")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="wait until it was read back")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show what would be done")]
OPEN_ENDED = {"allow_extra_args": True, "ignore_unknown_options": True}


def commands(product: Product) -> typer.Typer:
    """Returns the commands of one kind."""
    app = typer.Typer(no_args_is_help=True, help=f"{product.collection}")
    path = f"/v1/{product.collection}"
    fields = ", ".join(f"--{name.replace('_', '-')}" for name in product.spec_model.model_fields)

    @app.command("list")
    def list_(ctx: typer.Context) -> None:
        """Lists them, each with the version that was asked and the one that was read back."""
        session: Session = ctx.obj
        items = list(session.api.all(path))
        output.show_json(items) if session.json else output.resources(items)

    @app.command()
    def show(ctx: typer.Context, name: Name) -> None:
        """Shows one: what was asked beside what was read."""
        session: Session = ctx.obj
        one = session.api.get(f"{path}/{name}")
        output.show_json(one) if session.json else output.resource(one)

    @app.command(context_settings=OPEN_ENDED, help=f"Creates one. Options: {fields}")
    def create(ctx: typer.Context, name: str, wait: Wait = True, dry_run: DryRun = False) -> None:
        body = {"name": name, "spec": spec_of(product.spec_model, ctx.args)}
        change(ctx.obj, "POST", path, body, wait=wait, dry_run=dry_run)

    if product.kind == "region":
        app.command("add", context_settings=OPEN_ENDED, help=f"The same as create. Options: {fields}")(create)

    @app.command("set", context_settings=OPEN_ENDED, help=f"Changes one. Options: --name, {fields}")
    def set_(
        ctx: typer.Context,
        name: Name,
        new_name: Annotated[str | None, typer.Option("--name", help="a new name")] = None,
        if_match: Annotated[str | None, typer.Option(help="the ETag that the change is based on")] = None,
        wait: Wait = True,
        dry_run: DryRun = False,
    ) -> None:
        body = {"name": new_name, "spec": spec_of(product.spec_model, ctx.args)}
        headers = {"If-Match": if_match} if if_match else None
        change(ctx.obj, "PATCH", f"{path}/{name}", body, wait=wait, dry_run=dry_run, headers=headers)

    @app.command()
    def delete(ctx: typer.Context, name: Name, wait: Wait = True, dry_run: DryRun = False) -> None:
        """Deletes one; it is gone when its absence was read back."""
        change(ctx.obj, "DELETE", f"{path}/{name}", None, wait=wait, dry_run=dry_run)

    @app.command()
    def history(ctx: typer.Context, name: Name) -> None:
        """Lists the versions of what was asked, newest first."""
        session: Session = ctx.obj
        items = list(session.api.all(f"{path}/{name}/history"))
        if session.json:
            output.show_json(items)
        else:
            lines = ((one["version"], one["actor"], one["cause"], one["at"]) for one in items)
            output.table(("version", "actor", "cause", "at"), lines)

    @app.command()
    def drifts(ctx: typer.Context, name: Name) -> None:
        """Lists what was changed outside zone9, by whom, and how it ended; newest first."""
        session: Session = ctx.obj
        items = list(session.api.all(f"{path}/{name}/drifts"))
        if session.json:
            output.show_json(items)
        else:
            lines = (
                (
                    one["field"],
                    one["asked"],
                    one["read"],
                    one["who"],
                    one["what"],
                    one["noticed_at"],
                    one["ending"],
                )
                for one in items
            )
            output.table(("field", "asked", "read", "who", "what", "noticed", "ended"), lines)

    for action in product.actions.values():
        _add_action(app, path, action.name, action.body)
    if product.outside:
        _add_requests(app, path, product.kind)
    return app


def _add_action(app: typer.Typer, path: str, action: str, model: Any) -> None:
    @app.command(
        action, context_settings=OPEN_ENDED, help=f"{action}: asks for it, and waits until it was read back"
    )
    def act(ctx: typer.Context, name: Name, wait: Wait = True, dry_run: DryRun = False) -> None:
        from zone9.api.resources import NoBody  # here: only a command that needs it pays for it

        body = spec_of(model or NoBody, ctx.args)
        change(ctx.obj, "POST", f"{path}/{name}/{action}", body, wait=wait, dry_run=dry_run)


def _add_requests(app: typer.Typer, path: str, kind: str) -> None:
    @app.command()
    def verify(ctx: typer.Context, name: Name, wait: Wait = True) -> None:
        """Measures anew: looks, and changes nothing."""
        change(ctx.obj, "POST", f"{path}/{name}/verify", {}, wait=wait)
        session: Session = ctx.obj
        if wait and not session.json:
            output.resource(session.api.get(f"{path}/{name}"))

    if kind == "region":
        app.command("self-test", help="Measures anew, and says what the token or the nodes lack.")(verify)

        @app.command()
        def sweep(ctx: typer.Context, name: Name) -> None:
            """Shows how the newest pass over the region went, and why no absence is judged where that is so."""
            session: Session = ctx.obj
            one = session.api.get(f"{path}/{name}/sweep")
            if session.json:
                output.show_json(one)
                return
            frozen = " ".join(word["text"] for word in one.pop("frozen")) or "-"
            output.table(("", ""), [*one.items(), ("frozen", frozen)])

    @app.command()
    def reconcile(ctx: typer.Context, name: Name, wait: Wait = True) -> None:
        """Starts a version that was given up again."""
        change(ctx.obj, "POST", f"{path}/{name}/reconcile", {}, wait=wait)

    @app.command()
    def proofs(ctx: typer.Context, name: Name) -> None:
        """Lists what was written and what was read back after it, newest first."""
        session: Session = ctx.obj
        items = list(session.api.all(f"{path}/{name}/proofs"))
        if session.json:
            output.show_json(items)
        else:
            lines = (
                (one["step"], one["intent_version"], one["exit_text"], one["digest"], one["read_at"])
                for one in items
            )
            output.table(("step", "version", "exit", "digest", "read at"), lines)


def change(
    session: Session,
    method: str,
    path: str,
    body: Any,
    *,
    wait: bool,
    dry_run: bool = False,
    headers: Any = None,
    collection: str | None = None,
) -> None:
    """Sends a change, follows its job, and ends with what was read back; `collection` is where the resource is then."""
    api: Api = session.api
    answer = api.send(method, path, body, headers=headers, dry_run="true" if dry_run else None)
    if dry_run:
        _rehearsed(session, answer)
        return
    job = answer["job"]
    if job is not None and wait:
        job = output.follow(api, job["id"], quiet=session.json)
        answer = {**answer, "job": job}
        if method != "DELETE":
            where = collection or path.split("/")[2]
            answer["resource"] = api.get(f"/v1/{where}/{answer['resource']['id']}")
    if session.json:
        output.show_json(answer)
    if job is not None and wait:
        output.ended(job)
    if not session.json:
        resource = answer["resource"]
        created = method == "POST" and path.count("/") == 2
        done = (
            say("nothing to do")
            if job is None and not created
            else say("is at version {version}, read back", version=resource["intent_version"])
        )
        if method == "DELETE" and job is not None:
            done = say("is gone: its absence was read back")
        elif resource["deleted_at"] is not None:
            done = say("is no longer managed; its VM is left as it is")
        output.console().print(f"{resource['name']} {done if wait or job is None else job['id']}")


def _rehearsed(session: Session, answer: Any) -> None:
    if session.json:
        output.show_json(answer)
        return
    output.table(("step", "class"), ((one["step"], one["class"]) for one in answer["plan"]))
    output.table(
        ("field", "asked", "read", "class"),
        ((one["field"], one["asked"], one["read"], one["class"]) for one in answer["diffs"]),
    )
