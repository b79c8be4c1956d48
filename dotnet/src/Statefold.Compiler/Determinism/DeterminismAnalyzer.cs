using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Operations;

namespace Statefold.Compiler.Determinism;

/// <summary>
/// Finds what makes a fold give another state when it is run again over the same events. It looks at every operation of the upload, in
/// helper classes and lambdas too, and is no wall against code that hides: that is the jail's.
/// </summary>
internal sealed class DeterminismAnalyzer
{
    private readonly CSharpCompilation compilation;
    private readonly FrameworkRules framework = new();
    private readonly Breaches breaches = new();
    private readonly SharedState shared;
    private readonly Values values;
    private readonly TypesInUse inUse;
    private readonly HashOrder hashOrder;

    /// <param name="compilation">One without errors.</param>
    public DeterminismAnalyzer(CSharpCompilation compilation)
    {
        this.compilation = compilation;
        shared = new SharedState(compilation, breaches);
        values = new Values(breaches);
        inUse = new TypesInUse(compilation, framework, breaches);
        hashOrder = new HashOrder(compilation, inUse, breaches);
    }

    /// <summary>Each breach once a place, in the order of the sources.</summary>
    public IEnumerable<(Rule Rule, Location? Place, string Subject)> Find()
    {
        shared.LookAtTypes();
        foreach (var type in shared.Types)
        {
            LookAtType(type);
        }

        foreach (var tree in compilation.SyntaxTrees)
        {
            var model = compilation.GetSemanticModel(tree);
            foreach (var node in tree.GetRoot().DescendantNodes(n => !HoldsCode(n)).Where(HoldsCode))
            {
                if (model.GetOperation(node) is { } code)
                {
                    var member = MemberOf(node, model);
                    values.Enter(member, code);
                    shared.Enter(member);
                    Visit(code);
                }
            }
        }

        shared.Finish();
        hashOrder.Finish();
        return breaches.All;
    }

    private static bool HoldsCode(SyntaxNode node) => node switch
    {
        BaseMethodDeclarationSyntax or AccessorDeclarationSyntax or PrimaryConstructorBaseTypeSyntax => true,
        ArrowExpressionClauseSyntax => true,
        EqualsValueClauseSyntax => node.Parent is VariableDeclaratorSyntax or PropertyDeclarationSyntax,
        _ => false,
    };

    private static ISymbol? MemberOf(SyntaxNode node, SemanticModel model) => node switch
    {
        BaseMethodDeclarationSyntax or AccessorDeclarationSyntax => model.GetDeclaredSymbol(node),
        ArrowExpressionClauseSyntax => (model.GetDeclaredSymbol(node.Parent!) as IPropertySymbol)?.GetMethod,
        EqualsValueClauseSyntax => model.GetDeclaredSymbol(node.Parent!),
        _ => null,
    };

    private static string Name(ISymbol member)
    {
        // Without type arguments: those of nested generics can be longer than all of the upload.
        var type = member.ContainingType.Name;
        return member is IMethodSymbol { MethodKind: MethodKind.Constructor } ? $"new {type}" : $"{type}.{member.Name}";
    }

    private void LookAtType(INamedTypeSymbol type)
    {
        // A base class of the framework is constructed without an operation that says so.
        if (type.BaseType is { } parent && !compilation.Owns(parent) && parent.InstanceConstructors.FirstOrDefault(c => c.Parameters.IsEmpty) is { } constructor)
        {
            Check(constructor, type.Locations.FirstOrDefault(), $"{type.Name} : {parent.Name}");
        }

        foreach (var inherited in type.Interfaces.Append(type.BaseType).OfType<INamedTypeSymbol>().Where(one => !compilation.Owns(one)))
        {
            if ((framework.OfType(inherited) ?? (Allowed.MayBeBase(inherited) ? null : Rule.Base)) is { IsError: true } rule)
            {
                breaches.Add(rule, type.Locations.FirstOrDefault(), $"{type.Name} : {inherited.Name}");
            }
        }

        LookAtLayout(type);
        inUse.LookAtBases(type);
        hashOrder.LookAtType(type);
        foreach (var method in type.GetMembers().OfType<IMethodSymbol>())
        {
            if (Has(method, "System.Runtime.CompilerServices.ModuleInitializerAttribute"))
            {
                breaches.Add(Rule.Startup, method.Locations.FirstOrDefault(), $"{type.Name}.{method.Name}");
            }

            if (method.IsExtern)
            {
                breaches.Add(Rule.Native, method.Locations.FirstOrDefault(), $"{type.Name}.{method.Name}");
            }
            else if (method.MethodKind == MethodKind.Destructor)
            {
                breaches.Add(Rule.Threads, method.Locations.FirstOrDefault(), $"~{type.Name}");
            }
        }
    }

    /// <summary>Fields on top of each other read what is an object as another one, or as a number.</summary>
    private void LookAtLayout(INamedTypeSymbol type)
    {
        var fields = type.GetMembers().OfType<IFieldSymbol>().Where(field => !field.IsStatic).ToList();
        foreach (var field in fields.Where(field => !field.Type.IsUnmanagedType && fields.Any(one => Has(one, "System.Runtime.InteropServices.FieldOffsetAttribute"))))
        {
            breaches.Add(Rule.Native, field.Locations.FirstOrDefault(), $"{type.Name}.{field.Name}");
        }
    }

    private static bool Has(ISymbol member, string attribute) => member.GetAttributes().Any(a => a.AttributeClass is { } type && FrameworkRules.NameOf(type) == attribute);

    private void Visit(IOperation code)
    {
        // Descendants() keeps a stack of its own: an operation as deep as Roslyn could bind it doesn't overflow this thread's.
        foreach (var operation in code.DescendantsAndSelf())
        {
            shared.Look(operation);
            values.Look(operation);
            inUse.Look(operation);
            hashOrder.Look(operation);
            Look(operation);
        }
    }

    private void Look(IOperation operation)
    {
        if (Operations.IsUnheardOf(operation.Kind))
        {
            breaches.Add(Rule.Unlisted, operation.Syntax.GetLocation(), Places.TextOf(operation.Syntax));
        }

        if (Operations.BindsLate(operation))
        {
            breaches.Add(Rule.Reflection, operation.Syntax.GetLocation(), "dynamic");
        }

        if (Operations.IsNative(operation))
        {
            breaches.Add(Rule.Native, operation.Syntax.GetLocation(), Places.TextOf(operation.Syntax));
        }

        switch (operation)
        {
            // What is made here and now was told of already.
            case IInvocationOperation { Instance: IObjectCreationOperation { Constructor: { } constructor } } when framework.Of(constructor) is not null:
                return;
            // A lambda becomes a tree of its code without an operation that says so.
            case IConversionOperation { Type: INamedTypeSymbol { ContainingNamespace: { } space } made } when space.ToDisplayString() == "System.Linq.Expressions":
                breaches.Add(Rule.Trees, operation.Syntax.GetLocation(), $"{made.Name}<…>");
                break;
            // Its enumerator is called without a name, often by an interface that is fine.
            case ISpreadOperation { Operand: var spread }:
                LookAtEnumerated(spread);
                break;
            case IForEachLoopOperation { IsAsynchronous: false, Collection: var collection }:
                LookAtEnumerated(collection);
                break;
            case IAwaitOperation or IForEachLoopOperation { IsAsynchronous: true } or IUsingOperation { IsAsynchronous: true } or IUsingDeclarationOperation { IsAsynchronous: true }:
                breaches.Add(Rule.Async, operation.Syntax.GetFirstToken().GetLocation(), "await");
                return;
            case ILocalFunctionOperation { Symbol: { IsExtern: true } function }:
                breaches.Add(Rule.Native, function.Locations.FirstOrDefault(), function.Name);
                break;
            case ILockOperation:
                breaches.Add(Rule.Locks, operation.Syntax.GetFirstToken().GetLocation(), "lock");
                break;
        }

        foreach (var member in Operations.MembersOf(operation))
        {
            if (member is not null)
            {
                Check(member, operation.Syntax);
            }
        }
    }

    private void LookAtEnumerated(IOperation collection)
    {
        if (Values.Unwrapped(collection) is { Type: INamedTypeSymbol type } given && !compilation.Owns(type) && framework.OfType(type) is { } rule)
        {
            breaches.Add(rule, Places.Of(given.Syntax), $"foreach over {type.Name}");
        }
    }

    private void Check(ISymbol member, SyntaxNode syntax)
    {
        // An operator of the language itself (`1 + 2`) is no type's, nor is a function pointer's call.
        if (member.ContainingType is not null && !breaches.Full && !compilation.Owns(member) && framework.Of(member) is not null && !IsInNameOf(syntax))
        {
            Check(member, Places.Of(syntax), Name(member));
        }
    }

    private void Check(ISymbol member, Location? place, string subject)
    {
        if (framework.Of(member) is not { } rule)
        {
            return;
        }

        if (rule != Rule.HashCode || !values.InGetHashCode)
        {
            breaches.Add(rule == Rule.HashCode ? values.Hash : rule, place, subject);
        }
    }

    private static bool IsInNameOf(SyntaxNode syntax) => syntax.Ancestors().TakeWhile(n => n is ExpressionSyntax or ArgumentSyntax or ArgumentListSyntax)
        .Any(n => n is InvocationExpressionSyntax { Expression: IdentifierNameSyntax { Identifier.ValueText: "nameof" } });
}
