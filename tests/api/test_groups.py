"""Requests that share a commit: what the database refuses of one is no other's matter."""

from concurrent.futures import ThreadPoolExecutor

from actors import Actor, a_job
from sqlalchemy import Engine, text

POISON = {
    "sqlite": "CREATE TRIGGER poison BEFORE INSERT ON job WHEN NEW.name = 'poison' "
    "BEGIN SELECT RAISE(ABORT, 'poison'); END",
    "postgresql": """
        CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'as if it were in a deadlock' USING ERRCODE = '40P01'; END $$;
        CREATE TRIGGER poison BEFORE INSERT ON job FOR EACH ROW WHEN (NEW.name = 'poison') EXECUTE FUNCTION poison()
    """,
}


def test_one_that_the_database_refuses_fails_alone(tenant: Actor, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text(POISON[engine.dialect.name]))
    jobs = [a_job(name="poison" if n % 6 == 0 else "good") for n in range(24)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda job: tenant.post("/jobs", job), jobs))
    for job, answer in zip(jobs, answers, strict=True):
        assert answer.status_code == (503 if job["name"] == "poison" else 201), answer.text
    assert {answer.json()["code"] for answer in answers if answer.status_code == 503} == {"clash"}
    assert [each["spec"]["name"] for each in tenant.get("/jobs").json()["items"]] == ["good"] * 20
