namespace Statefold;

/// <summary>
/// The aggregate type that a reducer is for. Without it the class's name decides: the suffix <c>Reducer</c> is dropped and the
/// rest is written in camel case (<c>OrderReducer</c>: <c>order</c>; <c>OrderLineReducer</c>: <c>orderLine</c>).
/// </summary>
/// <param name="name">1 to 128 of <c>[A-Za-z0-9_.-]</c>.</param>
[AttributeUsage(AttributeTargets.Class, Inherited = false)]
public sealed class AggregateTypeAttribute(string name) : Attribute
{
    /// <summary>The aggregate type.</summary>
    public string Name { get; } = name;
}
