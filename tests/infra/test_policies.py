"""The checker of templates, on statements that are right and statements that are not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.policies import Request, allowed, differences, text_of, wide

TABLE: Any = {"Fn::GetAtt": ["Table", "Arn"]}
LOGS: Any = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":logs:eu-west-1:1:log-group:/strata/x:*"]]}
DOMAIN = "arn:aws:es:eu-west-1:1:domain/strata-x"


def policy(action: Any, resource: Any, **more: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": action, "Resource": resource, **more}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {"Resources": {"It": {"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": document}}}}


def joined(*parts: Any) -> Any:
    return {"Fn::Join": ["", list(parts)]}


@pytest.mark.parametrize(
    "template",
    [
        policy("dynamodb:GetItem", TABLE),
        policy(["dynamodb:Query"], [joined(TABLE, "/index/pool")]),
        policy(["logs:CreateLogStream", "logs:PutLogEvents"], LOGS),
        policy("es:ESHttpPost", f"{DOMAIN}/strata-*/_search"),
        policy("es:ESHttpPut", f"{DOMAIN}/strata-*"),
        policy("es:ESHttpGet", joined({"Fn::GetAtt": ["Search", "Arn"]}, "/strata-*/_mapping")),
        policy("xray:PutTraceSegments", "*"),
        policy("bedrock:InvokeModel", "arn:aws:bedrock:*::foundation-model/cohere.embed-v4:0"),
        policy("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:eu-west-1:1:secret:token-??????"),
        {"Resources": {"It": {"Type": "AWS::SQS::Queue"}}},
    ],
)
def test_what_is_as_narrow_as_it_can_be_passes(template: dict[str, Any]) -> None:
    template["Resources"] |= {
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": {
                    "Statement": [
                        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "a:b"}
                    ]
                }
            },
        }
    }
    assert wide(template) == []


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (policy("dynamodb:*", TABLE), "the action dynamodb:* is a pattern"),
        (policy("*", TABLE), "the action * is a pattern"),
        (policy(["s3:GetObject", "kms:ReEncrypt*"], TABLE), "the action kms:ReEncrypt* is a pattern"),
        (policy("dynamodb:GetItem", "*"), "dynamodb:GetItem is allowed on everything"),
        (policy(["xray:PutTraceSegments", "sqs:SendMessage"], "*"), "sqs:SendMessage is allowed on everything"),
        (policy("dynamodb:Query", joined(TABLE, "/index/*")), "the resource ${Table.Arn}/index/* is a pattern"),
        (policy("dynamodb:Query", joined(TABLE, "/*")), "the resource ${Table.Arn}/* is a pattern"),
        (policy("dynamodb:Query", "arn:aws:dynamodb:eu-west-1:1:table/*"), "table/* is a pattern"),
        (policy("dynamodb:Query", {"Fn::Sub": "arn:${AWS::Partition}:dynamodb:*:1:table/t"}), "dynamodb:*:1:table/t"),
        (policy("es:ESHttpPost", f"{DOMAIN}/*"), "domain/strata-x/* is a pattern, for es:ESHttpPost"),
        (policy("es:ESHttpPost", f"{DOMAIN}*/strata-*/_search"), "is a pattern"),
        (policy("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:eu-west-1:1:secret:*"), "is a pattern"),
        (policy("bedrock:InvokeModel", "arn:aws:bedrock:*::foundation-model/*"), "is a pattern"),
        (policy("logs:PutLogEvents", "arn:aws:logs:eu-west-1:1:log-group:*"), "is a pattern"),
    ],
)
def test_what_is_wider_than_it_need_be_is_named(template: dict[str, Any], said: str) -> None:
    (found,) = wide(template)
    assert found.startswith("It: ")
    assert said in found


def test_everything_but_is_everything() -> None:
    document = {"Statement": {"Effect": "Allow", "NotAction": "iam:*", "NotResource": TABLE}}
    role = {"Type": "AWS::IAM::Role", "Properties": {"Policies": [{"PolicyName": "p", "PolicyDocument": document}]}}
    assert wide({"Resources": {"It": role}}) == [
        "It: NotAction allows everything else",
        "It: NotResource allows everything else",
    ]


def test_policies_of_others_and_anybody_are_named() -> None:
    arn = joined("arn:", {"Ref": "AWS::Partition"}, ":iam::aws:policy/service-role/AWSLambdaBasicExecutionRole")
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sqs:SendMessage", "Resource": TABLE}
    template = {
        "Resources": {
            "Role": {"Type": "AWS::IAM::Role", "Properties": {"ManagedPolicyArns": [arn]}},
            "Open": {"Type": "AWS::SQS::QueuePolicy", "Properties": {"PolicyDocument": {"Statement": [statement]}}},
            "Refusing": {
                "Type": "AWS::SQS::QueuePolicy",
                "Properties": {"PolicyDocument": {"Statement": [{**statement, "Effect": "Deny"}]}},
            },
            "Domain": {
                "Type": "AWS::OpenSearchService::Domain",
                "Properties": {"AccessPolicies": {"Statement": [{**statement, "Principal": "*", "Action": "es:*"}]}},
            },
        }
    }
    assert wide(template) == [
        "Domain: anybody may es:*",
        "Open: anybody may sqs:SendMessage",
        "Role: has the managed policy arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole",
    ]


@pytest.mark.parametrize(
    ("resource", "arn", "matches"),
    [
        ("arn:t/table/x", "arn:t/table/x", True),
        ("arn:t/table/x", "arn:t/table/xy", False),
        ("arn:t/table/x", "arn:t/table/x/index/pool", False),
        ("arn:t/strata-*/_search", "arn:t/strata-a-v1/_search", True),
        ("arn:t/strata-*/_search", "arn:t/other/_search", False),
        ("arn:t/strata-*/_search", "arn:t/strata-a/_bulk", False),
        ("arn:t.secret-??????", "arn:t.secret-AbC123", True),
        ("arn:t.secret-??????", "arn:txsecret-AbC123", False),
        ("arn:t.secret-??????", "arn:t.secret-more-AbC123", False),
    ],
)
def test_resources_match_as_iam_matches_them(resource: str, arn: str, matches: bool) -> None:
    assert allowed({"Action": ["a:Get", "a:Put"], "Resource": resource}, Request("a:put", arn)) is matches
    assert not allowed({"Action": "a:Get", "Resource": resource}, Request("a:GetAll", arn))


def test_differences_are_named_both_ways() -> None:
    statements = [{"Action": ["a:Get", "a:Put"], "Resource": "t"}, {"Action": "a:Query", "Resource": ["t", "i"]}]
    asked = [Request("a:Get", "t"), Request("a:Query", "i"), Request("a:Delete", "t"), Request("a:Get", "i")]
    assert differences("checkout", asked, statements) == [
        "checkout does not need a:Put on t",
        "checkout does not need a:Query on t",
        "checkout lacks a:Delete on t",
        "checkout lacks a:Get on i",
    ]


def test_a_templates_values_read_as_text() -> None:
    assert text_of({"Fn::ImportValue": "data:ExportsOutput*"}) == "${data:ExportsOutput}"
    assert text_of({"Fn::Sub": ["arn:${A*}:x", {}]}) == "arn:${A}:x"
    assert text_of({"Fn::GetAtt": "Table.Arn"}) == "${Table.Arn}"
