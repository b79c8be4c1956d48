using System.Runtime.InteropServices;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>
/// Finds what outlives an <c>Apply</c> other than by its result: static members that change, what they hold, and the fields of reducers
/// and projections, of which there is one instance for all aggregates. Tables that are filled once and only read are fine.
/// </summary>
internal sealed class SharedState(CSharpCompilation compilation, Breaches breaches)
{
    private readonly List<INamedTypeSymbol> types = [];
    private readonly HashSet<ISymbol> folds = new(SymbolEqualityComparer.Default);

    // Methods of the upload that change the object they are called on, and whom they call on it; found on the way.
    private readonly HashSet<ISymbol> changers = new(SymbolEqualityComparer.Default);
    private readonly Dictionary<ISymbol, List<ISymbol>> callersOf = new(SymbolEqualityComparer.Default);
    private readonly List<(ISymbol Called, Rule Rule, Location Place, string Subject)> suspects = [];

    // Locals that stand for what a shared member holds, in the member that is looked at.
    private readonly Dictionary<ISymbol, Root> aliases = new(SymbolEqualityComparer.Default);
    private ISymbol? member;

    private enum Owner
    {
        None,
        Static,
        This,
    }

    public IReadOnlyList<INamedTypeSymbol> Types => types;

    public void LookAtTypes()
    {
        Collect(compilation.Assembly.GlobalNamespace);
        foreach (var type in types)
        {
            AddFold(type);
            foreach (var symbol in type.GetMembers())
            {
                if (IsChangeable(symbol))
                {
                    var shown = (symbol as IFieldSymbol)?.AssociatedSymbol ?? symbol;
                    breaches.Add(Rule.StaticState, shown.Locations.FirstOrDefault(), $"{type.Name}.{shown.Name}");
                }
            }
        }
    }

    /// <summary>From here on operations of that member are looked at.</summary>
    public void Enter(ISymbol? entered)
    {
        member = entered;
        aliases.Clear();
    }

    public void Look(IOperation operation)
    {
        switch (operation)
        {
            case IVariableDeclaratorOperation { Symbol: var local, Initializer.Value: var value }:
                Alias(local, value);
                break;
            case IForEachLoopOperation { Collection: var collection, LoopControlVariable: IVariableDeclaratorOperation { Symbol: { IsRef: true } local } }:
                Alias(local, collection);
                break;
            // Whoever gets the reference may write through it.
            case IReturnOperation { ReturnedValue: { } returned } when member is IMethodSymbol { ReturnsByRef: true }:
                Write(returned);
                break;
            case ISimpleAssignmentOperation { IsRef: false, Target: ILocalReferenceOperation { Local.IsRef: true } target }:
                Write(target);
                break;
            case ISimpleAssignmentOperation { Target: ILocalReferenceOperation { Local: var local }, Value: var value }:
                Alias(local, value);
                break;
            case IDeconstructionAssignmentOperation { Target: ITupleOperation { Elements: var targets } }:
                foreach (var target in targets)
                {
                    Write(target);
                }

                break;
            case IAssignmentOperation { Target: var target }:
                Write(target);
                break;
            case IIncrementOrDecrementOperation { Target: var target }:
                Write(target);
                break;
            case IEventAssignmentOperation { EventReference: var target }:
                Write(target);
                break;
            case IArgumentOperation { Parameter.RefKind: RefKind.Ref or RefKind.Out, Value: var target }:
                Write(target);
                break;
            case IInvocationOperation call:
                Call(call);
                break;
        }
    }

    /// <summary>Tells of the calls of the upload's own methods that turned out to change their object.</summary>
    public void Finish()
    {
        var left = new Queue<ISymbol>(changers);
        while (left.TryDequeue(out var changer))
        {
            foreach (var caller in callersOf.GetValueOrDefault(changer) ?? [])
            {
                if (changers.Add(caller))
                {
                    left.Enqueue(caller);
                }
            }
        }

        foreach (var (called, rule, place, subject) in suspects)
        {
            if (changers.Contains(called))
            {
                breaches.Add(rule, place, subject);
            }
        }
    }

    private static bool IsChangeable(ISymbol symbol) => symbol switch
    {
        // The field of a property is named after it; that of a primary constructor's parameter is none of a static's.
        IFieldSymbol { IsStatic: true, IsConst: false, IsReadOnly: false, ContainingType.TypeKind: not TypeKind.Enum } => true,
        IEventSymbol { IsStatic: true, AddMethod.IsImplicitlyDeclared: true } => true,
        _ => false,
    };

    private void Collect(INamespaceOrTypeSymbol container)
    {
        foreach (var inner in container.GetMembers().OfType<INamespaceOrTypeSymbol>())
        {
            if (inner is INamedTypeSymbol type)
            {
                types.Add(type);
            }

            Collect(inner);
        }
    }

    /// <summary>Notes a reducer or projection with its base classes. One that is its own state changes that, not itself.</summary>
    private void AddFold(INamedTypeSymbol type)
    {
        var folding = type.AllInterfaces.Where(i => FrameworkRules.NameOf(i) is "Statefold.IReducer`1" or "Statefold.IProjection`1").ToList();
        if (folding.Count == 0 || folding.Any(i => SymbolEqualityComparer.Default.Equals(i.TypeArguments[0], type)))
        {
            return;
        }

        for (var at = type; at is not null && compilation.Owns(at); at = at.BaseType)
        {
            folds.Add(at.OriginalDefinition);
        }
    }

    private void Alias(ILocalSymbol local, IOperation value)
    {
        if ((local.Type.IsReferenceType || local.IsRef || IsSpan(local.Type)) && RootOf(value) is { Owner: not Owner.None } root)
        {
            aliases[local] = root with { Path = true };
        }
    }

    private void Write(IOperation target)
    {
        // Of the framework's own: a setting that all code of the process shares.
        if (target is IMemberReferenceOperation { Instance: null, Member: { IsStatic: true } shared } && !compilation.Owns(shared))
        {
            breaches.Add(Rule.FrameworkState, target.Syntax.GetLocation(), Places.TextOf(target.Syntax));
            return;
        }

        var root = RootOf(target);
        if (root.Owner == Owner.This && root.Path)
        {
            NoteChanger();
        }

        // The local itself gets another value; what it stood for stays, but where it is a reference to that.
        if (target is ILocalReferenceOperation { Local.IsRef: false } || Breached(root) is not { } rule)
        {
            return;
        }

        // Told where it is declared.
        var isMember = target is IMemberReferenceOperation { Member: var written } && SymbolEqualityComparer.Default.Equals(written, root.Member);
        if (!(isMember && root.Owner == Owner.Static))
        {
            breaches.Add(rule, target.Syntax.GetLocation(), Places.TextOf(target.Syntax));
        }
    }

    private void Call(IInvocationOperation call)
    {
        var method = call.TargetMethod.OriginalDefinition;
        var isOwn = compilation.Owns(method);
        var receiver = call.Instance ?? (Mutators.ChangesFirstArgument(method) ? call.Arguments.FirstOrDefault()?.Value : null);
        if (receiver is null)
        {
            return;
        }

        var root = RootOf(receiver);
        if (isOwn && root.Owner == Owner.This && member is not null)
        {
            (CollectionsMarshal.GetValueRefOrAddDefault(callersOf, method, out _) ??= []).Add(member);
        }

        var changes = !isOwn && Mutators.Changes(method);
        if (changes && root is { Owner: Owner.This, Path: true })
        {
            NoteChanger();
        }

        if (Breached(root) is not { } rule || (root.Owner == Owner.This && !root.Path))
        {
            return;
        }

        var (place, subject) = (Places.Of(call.Syntax), $"{Places.TextOf(receiver.Syntax)}.{method.Name}");
        if (changes)
        {
            breaches.Add(rule, place, subject);
        }
        else if (isOwn)
        {
            suspects.Add((method, rule, place, subject));
        }
    }

    private void NoteChanger()
    {
        if (member is IMethodSymbol { MethodKind: not MethodKind.Constructor })
        {
            changers.Add(member);
        }
    }

    /// <summary>The rule that a change at that root breaks; none where the member that is looked at makes its first content.</summary>
    private Rule? Breached(Root root)
    {
        switch (root.Owner)
        {
            case Owner.Static:
                var isOwnInitializer = member is IMethodSymbol { MethodKind: MethodKind.StaticConstructor } or IFieldSymbol { IsStatic: true } or IPropertySymbol { IsStatic: true };
                return isOwnInitializer && SymbolEqualityComparer.Default.Equals(member!.ContainingType, root.Member!.ContainingType) ? null : Rule.StaticContent;
            case Owner.This:
                return member is IMethodSymbol { MethodKind: not MethodKind.Constructor, ContainingType: var type } && folds.Contains(type.OriginalDefinition) ? Rule.OwnState : null;
            default:
                return null;
        }
    }

    /// <summary>Whose an expression is: <c>Cache.Entries[3].Name</c> is a static member's, <c>this.entries[3]</c> the object's.</summary>
    private Root RootOf(IOperation? operation)
    {
        var path = false;
        ISymbol? outermost = null;
        while (operation is not null)
        {
            switch (operation)
            {
                case IMemberReferenceOperation { Instance: null, Member: { IsStatic: true } found } when found is IFieldSymbol or IPropertySymbol or IEventSymbol:
                    var isOwn = compilation.Owns(found);
                    return isOwn ? new Root(Owner.Static, true, found) : Root.None;
                case IMemberReferenceOperation { Instance: var instance, Member: var read } when read is IFieldSymbol or IPropertySymbol or IEventSymbol:
                    (operation, path, outermost) = (instance, true, read);
                    break;
                case IArrayElementReferenceOperation { ArrayReference: var array }:
                    (operation, path) = (array, true);
                    break;
                case IConversionOperation { OperatorMethod: null, Operand: var operand }:
                    operation = operand;
                    break;
                case IConversionOperation { Type: { } made, Operand: var operand } when IsSpan(made):
                    (operation, path) = (operand, true);
                    break;
                // What it gives leads to what it was asked of: `All.AsSpan()`, `ref CollectionsMarshal.GetValueRefOrNullRef(Counts, key)`.
                case IInvocationOperation { TargetMethod: var method } call when method.ReturnsByRef || IsSpan(method.ReturnType):
                    (operation, path) = (call.Instance ?? call.Arguments.FirstOrDefault()?.Value, true);
                    break;
                case IParenthesizedOperation { Operand: var operand }:
                    operation = operand;
                    break;
                case ICoalesceAssignmentOperation { Target: var target }:
                    operation = target;
                    break;
                case IConditionalAccessInstanceOperation:
                    operation = AccessedBy(operation);
                    break;
                case IInstanceReferenceOperation { ReferenceKind: InstanceReferenceKind.ContainingTypeInstance }:
                    return new Root(Owner.This, path, outermost);
                case ILocalReferenceOperation { Local: var local }:
                    return aliases.TryGetValue(local, out var root) ? root : Root.None;
                default:
                    return Root.None;
            }
        }

        return Root.None;
    }

    /// <summary>It stands for a part of an array, whose elements are written through it.</summary>
    private static bool IsSpan(ITypeSymbol type) => type is INamedTypeSymbol named && FrameworkRules.NameOf(named) is "System.Span`1" or "System.Memory`1" or "System.ArraySegment`1";

    private static IOperation? AccessedBy(IOperation instance)
    {
        for (var at = instance.Parent; at is not null; at = at.Parent)
        {
            if (at is IConditionalAccessOperation access && access.Operation != instance && access.Operation.Syntax == instance.Syntax)
            {
                return access.Operation;
            }
        }

        return null;
    }

    /// <param name="Path">A member or element of it, as against the object itself.</param>
    /// <param name="Member">The first member on the way.</param>
    private readonly record struct Root(Owner Owner, bool Path, ISymbol? Member)
    {
        public static readonly Root None = new(Owner.None, false, null);
    }
}
