//! Generics of functions and of generated code.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{GenericParam, Generics, Ident, PredicateType, Token, Type, TypeParam, TypeParamBound, WherePredicate};

/// Returns the generics that the types use: the parameters, and the bounds that refer to no other parameters.
pub(crate) fn used_by(types: &[&Type], generics: &Generics) -> Generics {
    let is_used = |param: &&GenericParam| types.iter().any(|ty| mentions(ty, &name_of(param)));
    let (used, unused): (Vec<_>, Vec<_>) = generics.params.iter().partition(is_used);
    let is_independent = |bound: &dyn ToTokens| !unused.iter().any(|param| mentions(bound, &name_of(param)));
    let params = used.iter().map(|&param| {
        let mut param = param.clone();
        if let GenericParam::Type(param) = &mut param {
            param.bounds = param.bounds.iter().filter(|bound| is_independent(bound)).cloned().collect();
        }
        param
    });
    let mut own = Generics { params: params.collect(), ..Generics::default() };
    if let Some(clause) = &generics.where_clause {
        let is_ours = |predicate: &&WherePredicate| is_independent(predicate) && are_mentioned(&own, predicate);
        let ours = clause.predicates.iter().filter(is_ours).cloned().collect();
        own.make_where_clause().predicates = ours;
    }
    own
}

/// Adds bounds. They are added inline to the parameter if possible, because clippy warns about parameters that have
/// bounds in two places.
pub(crate) fn bind(generics: &mut Generics, bounds: impl IntoIterator<Item = WherePredicate>) {
    for bound in bounds {
        match parameter_of(generics, &bound) {
            Some((param, more)) => param.bounds.extend(more.clone()),
            None => generics.make_where_clause().predicates.push(bound),
        }
    }
}

type Bounds = Punctuated<TypeParamBound, Token![+]>;

/// Returns the parameter that a predicate bounds, unless a where clause already bounds it.
fn parameter_of<'g, 'p>(
    generics: &'g mut Generics,
    predicate: &'p WherePredicate,
) -> Option<(&'g mut TypeParam, &'p Bounds)> {
    let (name, bounds) = bound_name(predicate)?;
    let mut earlier = generics.where_clause.iter().flat_map(|clause| &clause.predicates).filter_map(bound_name);
    if earlier.any(|(earlier, _)| earlier == name) {
        return None;
    }
    let param = generics.type_params_mut().find(|param| param.ident == *name)?;
    Some((param, bounds))
}

/// Returns the name that a predicate bounds, if it is a single identifier, and the bounds.
fn bound_name(predicate: &WherePredicate) -> Option<(&Ident, &Bounds)> {
    match predicate {
        WherePredicate::Type(PredicateType { bounded_ty: Type::Path(ty), bounds, .. }) => {
            Some((ty.path.get_ident()?, bounds))
        }
        _ => None,
    }
}

/// Returns `true` if one of the parameters occurs in the code.
pub(crate) fn are_mentioned(generics: &Generics, code: &dyn ToTokens) -> bool {
    generics.params.iter().any(|param| mentions(code, &name_of(param)))
}

/// Returns `true` if the name occurs in the code.
pub(crate) fn mentions(code: &dyn ToTokens, name: &str) -> bool {
    fn search(tokens: TokenStream, name: &str) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == name,
            TokenTree::Group(group) => search(group.stream(), name),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    search(code.to_token_stream(), name)
}

fn name_of(param: &GenericParam) -> String {
    let name = match param {
        GenericParam::Lifetime(param) => &param.lifetime.ident,
        GenericParam::Type(param) => &param.ident,
        GenericParam::Const(param) => &param.ident,
    };
    name.to_string()
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::parse_quote;

    use super::*;

    fn generics() -> Generics {
        let mut generics: Generics = parse_quote!(<T: Store + Into<U>, U, const N: usize>);
        generics.where_clause = Some(parse_quote!(where T::Item: Clone, U: Clone));
        generics
    }

    fn written(generics: &Generics) -> String {
        let clause = &generics.where_clause;
        quote!(#generics #clause).to_string()
    }

    #[test]
    fn the_bounds_of_used_parameters_are_kept() {
        let used = used_by(&[&parse_quote!(T::Item), &parse_quote!([u8; N])], &generics());
        assert_eq!(written(&used), "< T : Store , const N : usize > where T :: Item : Clone");
        assert_eq!(written(&used_by(&[&parse_quote!(u8)], &generics())), "");
    }

    #[test]
    fn a_parameter_has_its_bounds_in_one_place() {
        let mut bound = generics();
        bind(&mut bound, [parse_quote!(T: Send), parse_quote!(U: Send), parse_quote!(T::Item: Send)]);
        let expected = "< T : Store + Into < U > + Send , U , const N : usize > \
                        where T :: Item : Clone , U : Clone , U : Send , T :: Item : Send";
        assert_eq!(written(&bound), expected);
    }
}
