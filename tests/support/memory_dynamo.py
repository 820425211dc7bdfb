"""DynamoDB in memory, as far as DynamoKV speaks it: the real store runs on it, with its retries and its tokens.

Every request is applied at once and as a whole, so a test chooses the order of things. `frozen` makes index queries
answer from an earlier moment, as real indexes may.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from shared.storage.kv import Key
from tests.support.memory import Stored

OnWrite = Callable[[Any, Key, Stored | None, Stored | None], None]


class MemoryDynamo:
    def __init__(self) -> None:
        self.items: dict[Key, Stored] = {}
        self.frozen: dict[Key, Stored] | None = None
        self.refused: Counter[str] = Counter()  # "sub.version": how often just this attribute stood against a write
        self.on_write: OnWrite = lambda *_: None

    async def __call__(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.apply(operation, params)

    def apply(self, operation: str, params: Mapping[str, Any], by: Any = None) -> dict[str, Any]:
        match operation:
            case "GetItem":
                item = self.items.get(_key(params["Key"]))
                return {"Item": _wire(_key(params["Key"]), item)} if item else {}
            case "BatchGetItem":
                return self._batch_get(params["RequestItems"])
            case "Query":
                return self._query(params)
            case "PutItem":
                self._write([("Put", params)], by, "ConditionalCheckFailedException")
                return {}
            case "UpdateItem":
                self._write([("Update", params)], by, "ConditionalCheckFailedException")
                return {"Attributes": _wire(_key(params["Key"]), self.items[_key(params["Key"])])}
            case "BatchWriteItem":
                [puts] = params["RequestItems"].values()
                assert len(puts) <= 25, "DynamoDB refuses more than 25 writes in a batch"
                self._write([("Put", put["PutRequest"]) for put in puts], by, "")
                return {"UnprocessedItems": {}}
            case "TransactWriteItems":
                actions = [next(iter(action.items())) for action in params["TransactItems"]]
                self._write(actions, by, "TransactionCanceledException")
                return {}
        raise AssertionError(f"{operation} is not supported")

    def _batch_get(self, request: Mapping[str, Any]) -> dict[str, Any]:
        [(table, ask)] = request.items()
        keys = [_key(key) for key in ask["Keys"]]
        assert len(keys) <= 100
        assert len(set(keys)) == len(keys)
        return {
            "Responses": {table: [_wire(key, self.items[key]) for key in keys if key in self.items]},
            "UnprocessedKeys": {},
        }

    def _query(self, params: Mapping[str, Any]) -> dict[str, Any]:
        index = params.get("IndexName")
        items = self.frozen if index and self.frozen is not None else self.items
        names, values = params["ExpressionAttributeNames"], params["ExpressionAttributeValues"]
        tests = _tests(params["KeyConditionExpression"], names, values)
        partition = values[":p"]["S"]
        rows = []
        for key, item in items.items():
            if (item.attrs.get(f"{index}Pk") if index else key.pk) == partition:  # quickly past all the others
                row = _projected(_wire(key, item), index)
                if all(test(row) for _, test in tests):
                    rows.append((row[f"{index}Sk" if index else "sk"]["S"], row))
        rows.sort(key=lambda pair: pair[0], reverse=not params["ScanIndexForward"])
        limit = params.get("Limit", len(rows) + 1)
        after = params.get("ExclusiveStartKey")
        if after:
            rows = rows[next(i for i, (_, row) in enumerate(rows) if _key(row) == _key(after)) + 1 :]
        page = [row for _, row in rows[:limit]]
        # Like the real one: a page that was cut by its limit has a successor, which may be empty.
        cut = {"LastEvaluatedKey": {name: page[-1][name] for name in ("pk", "sk")}} if len(rows) >= limit else {}
        return {"Items": page, **cut}

    def _write(self, actions: list[tuple[str, Mapping[str, Any]]], by: Any, code: str) -> None:
        keys = [_key(action["Item"] if kind == "Put" else action["Key"]) for kind, action in actions]
        assert len(set(keys)) == len(keys), "DynamoDB refuses two writes to one item in a transaction"
        holds = [self._holds(key, action) for key, (_, action) in zip(keys, actions, strict=True)]
        if not all(holds):
            reasons = [{"Code": "None" if held else "ConditionalCheckFailed"} for held in holds]
            raise _error(code, CancellationReasons=reasons)
        for key, (kind, action) in zip(keys, actions, strict=True):
            before = self.items.get(key)
            after = _after(kind, action, before)
            if after is None:
                self.items.pop(key, None)
            else:
                self.items[key] = after
            self.on_write(by, key, before, after)

    def _holds(self, key: Key, action: Mapping[str, Any]) -> bool:
        if "ConditionExpression" not in action:
            return True
        item = self.items.get(key)
        row = {} if item is None else _wire(key, item)
        names, values = action["ExpressionAttributeNames"], action.get("ExpressionAttributeValues", {})
        ways = [_tests(way, names, values) for way in action["ConditionExpression"].split(" OR ")]
        if any(all(test(row) for _, test in way) for way in ways):
            return True
        failing = [name for name, test in ways[0] if not test(row)]
        self.refused[f"{key.pk.partition(':')[0]}.{'+'.join(sorted(failing))}"] += 1
        return False


def throttled() -> ClientError:
    return _error("ThrottlingException")


def _error(code: str, **more: Any) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}, **more}, "op")


def _key(item: Mapping[str, Any]) -> Key:
    return Key(item["pk"]["S"], item["sk"]["S"])


def _wire(key: Key, item: Stored) -> dict[str, dict[str, str]]:
    doc = {"doc": {"S": item.doc}} if item.doc else {}
    attrs = {name: {"S": value} if isinstance(value, str) else {"N": str(value)} for name, value in item.attrs.items()}
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}, **doc, **attrs}


def _projected(row: dict[str, dict[str, str]], index: str | None) -> dict[str, dict[str, str]]:
    """Indexes carry their keys and the short `row`, the due index its keys alone."""
    if index is None:
        return row
    names = {"pk", "sk", f"{index}Pk", f"{index}Sk"} | (set() if index == "due" else {"row"})
    return {name: value for name, value in row.items() if name in names}


def _native(value: Mapping[str, str]) -> str | int:
    return value["S"] if "S" in value else int(value["N"])


def _after(kind: str, action: Mapping[str, Any], before: Stored | None) -> Stored | None:
    if kind == "Put":
        attrs = {name: _native(value) for name, value in action["Item"].items() if name not in ("pk", "sk", "doc")}
        return Stored(action["Item"]["doc"]["S"], attrs)
    if kind == "Update":
        names, values = action["ExpressionAttributeNames"], action.get("ExpressionAttributeValues", {})
        counts = dict(before.attrs) if before else {}
        for removed in re.findall(r"#r\d+", action["UpdateExpression"]):
            counts.pop(names[removed], None)
        for name, value in re.findall(r"(#\w+) (:\w+)", action["UpdateExpression"]):
            counts[names[name]] = counts.get(names[name], 0) + _native(values[value])
        for name, value in re.findall(r"(#\w+) = (:\w+)", action["UpdateExpression"]):
            counts[names[name]] = _native(values[value])
        return Stored(before.doc if before else "", counts)
    return None if kind == "Delete" else before


_FORMS = {
    r"attribute_not_exists\((#\w+)\)()": lambda found, _: found is None,
    r"begins_with\((#\w+), (:\w+)\)": lambda found, value: found is not None and found.startswith(value),
    r"(#\w+) = (:\w+)": lambda found, value: found == value,
    r"(#\w+) > (:\w+)": lambda found, value: found is not None and found > value,
    r"(#\w+) < (:\w+)": lambda found, value: found is not None and found < value,
    r"(#\w+) <= (:\w+)": lambda found, value: found is not None and found <= value,
}


def _tests(
    expression: str, names: Mapping[str, str], values: Mapping[str, Any]
) -> list[tuple[str, Callable[[Mapping[str, Any]], bool]]]:
    parts = re.split(r" AND (?!:)", expression)
    tested = re.findall(r"#\w+", expression)
    assert len(set(tested)) == len(tested) or "#p" not in tested, "DynamoDB takes one condition on a key"
    return [_test(part, names, values) for part in parts]


def _test(part: str, names, values):
    if between := re.fullmatch(r"(#\w+) BETWEEN (:\w+) AND (:\w+)", part):
        name, low, high = names[between[1]], _native(values[between[2]]), _native(values[between[3]])
        return name, lambda row: name in row and low <= _native(row[name]) <= high
    form, match = next((form, match) for form in _FORMS if (match := re.fullmatch(form, part)))
    name, holds = names[match[1]], _FORMS[form]
    wanted = _native(values[match[2]]) if match[2] else None
    return name, lambda row: holds(_native(row[name]) if name in row else None, wanted)
