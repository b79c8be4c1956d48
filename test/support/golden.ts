/** JSON objects whose bytes a careless reader changes: each is sent as it stands, and must come back so. */
export const GOLDEN: Readonly<Record<string, string>> = {
  numbers:
    '{"big":9007199254740993,"huge":123456789012345678901234567890,"long":-9223372036854775808,"one":1.0,"neg":-0,"negative":-0.0,"over":1e400,"exp":1E+2,"small":5e-400,"digits":0.1000000000000000055511151231257827}',
  order: '{"z":1,"a":2,"10":3,"2":4,"01":5,"":6,"A":7}',
  escapes:
    '{"esc":"\\u0041\\/\\"\\\\\\b\\f\\n\\r\\t\\u00e9","nul":"\\u0000","pair":"\\ud83d\\ude00","key\\u0020":"\\u2028"}',
  text: '{"emoji":"\u{1f600}\u{1f468}\u200d\u{1f469}","accent":"e\u0301 \u00e9","separators":"\u2028\u2029","bom":"\ufeff","private":"\ue000\uffff","html":"</script>&<!--"}',
  prototype:
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":1,"hasOwnProperty":null}',
  duplicates: '{"dup":1,"dup":2,"in":{"a":"x","a":"y"}}',
  white: '{ \t\n\r "ws" :  [ 1 , 2 ,[ ] ] , "o":{ }\n}',
  deep: `{"d":${'['.repeat(60)}1${']'.repeat(60)}}`,
  literals: '{"t":true,"f":false,"n":null,"s":"true"}',
};

/** A reducer and a projection that hand on the text of what they were given, and its numbers as they read them. */
export const goldenReducer = `namespace Golden;

[AggregateType("golden")]
public sealed class GoldenReducer : IReducer<Gold>
{
    public Gold? Apply(Gold? state, Event e) => Gold.Of(e);
}

public sealed record Gold(string Raw, string? Metadata, JsonElement? Element)
{
    public static Gold Of(Event e) => new(e.Data.GetRawText(), e.Metadata?.GetRawText(), e.Data.TryGetProperty("d", out _) ? null : e.Data);
}
`.replace('namespace', 'using System.Text.Json;\n\nnamespace');

export const goldenProjection = goldenReducer.replace(
  /\[AggregateType[\s\S]*?\n\}\n/,
  `public sealed class Goldens : IProjection<Gold>
{
    public string? ResolveKey(Event e) => e.EventType;

    public Gold? Apply(Gold? state, Event e) => Gold.Of(e);
}
`,
);
